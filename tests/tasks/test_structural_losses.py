"""What biases add to the loss of a batch: by hand, and learned by."""

import pytest
import torch

from regard import record
from regard.attention import concat_steps
from regard.core.tokens import EOS, PAD
from regard.data.batches import Batch
from regard.losses import global_fertility, trace
from regard.models import TRANSLATORS
from regard.models.both_directions import TwoWay, ahead_of
from regard.runs.fit import TaskProblem
from regard.tasks.structural_losses import between_words
from regard.tasks.translation import TRANSLATION, real, reversed_batch, target_in

SIZES = {"source_vocabulary": 9, "target_vocabulary": 12, "width": 8}
BACK = {**SIZES, "source_vocabulary": 12, "target_vocabulary": 9}
HEADS = {"heads": 2, "inner": 16, "layers": 2}
models = pytest.mark.parametrize("name", ["bahdanau", "luong", "transformer"])


def batch(**more):
    source = torch.tensor([[4, 5, 6], [7, 8, 0]])
    target = torch.tensor([[4, 5, 10, 11, EOS], [9, 8, EOS, PAD, PAD]])
    lengths = {"source": torch.tensor([3, 2]), "target": torch.tensor([5, 3])}
    return Batch({"source": source, "target": target}, lengths, torch.arange(2), **more)


def problem():
    """Translation without label smoothing."""
    data, training = {"corpus": "phrases-de"}, {"smoothing": 0.0}
    settings = TRANSLATION.resolve({"data": data, "training": training})
    return TaskProblem(TRANSLATION, settings, None, [], "cpu")


def make(name, sizes=SIZES, **settings):
    torch.manual_seed(1)
    more = HEADS if name == "transformer" else {}
    return TRANSLATORS[name].make(**{**sizes, **more, "dropout": 0.0}, **settings).double()


def test_a_batch_the_other_way_round():
    back = reversed_batch(batch())
    assert back["source"].tolist() == [[4, 5, 10, 11], [9, 8, 0, 0]]
    assert target_in(back["target"]).tolist() == [[1, 4, 5, 6], [1, 7, 8, 0]]
    assert back["target"].tolist() == [[4, 5, 6, EOS], [7, 8, EOS, PAD]]
    assert back.lengths["source"].tolist() == [4, 2]
    assert back.lengths["target"].tolist() == [4, 3]
    again = reversed_batch(back)
    for part in ("fields", "lengths"):
        for name, tensor in getattr(batch(), part).items():
            assert torch.equal(tensor, getattr(again, part)[name]), name
    assert torch.equal(again.indices, batch().indices)


@models
def test_global_fertility_is_added(name):
    model, pairs = make(name, bias=("global-fertility:0.5",)), batch()
    task = problem()
    loss, tokens = task.loss(model, pairs)
    with record(model, model.attention_paths["cross"][-1], grad=True) as seen:
        hidden, wanted = real(model, pairs)
    parts = seen[model.attention_paths["cross"][-1]]
    weights = torch.cat([one.weights for one in parts], -2)
    weights = weights if weights.dim() == 3 else weights.mean(1)
    rows = [weights[0, :4], weights[1, :2]]  # words, not the end
    mean, variance = model.expected(annotations(parts[0].values))
    extra = sum(
        global_fertility(rows[b][:, :n], mean[b, :n], variance[b, :n], torch.ones(n, dtype=torch.bool))
        for b, n in enumerate((3, 2))
    )
    torch.testing.assert_close(loss, model.loss(hidden, wanted) + 0.5 * extra)
    assert tokens == 5 + 3
    loss.backward()
    assert all(p.grad is not None and p.grad.any() for p in model.expected.parameters())


def annotations(values):
    return values if values.dim() == 3 else torch.cat(list(values.unbind(1)), -1)


@models
def test_two_directions_get_a_bonus_for_agreeing(name):
    model, pairs = TwoWay(make(name), make(name, BACK), gamma=0.7), batch()
    task = problem()
    loss, tokens = task.loss(model, pairs)
    assert tokens == (5 + 3) + (4 + 3)
    with (
        record(model.ahead, model.ahead.attention_paths["cross"][-1]) as ours,
        record(model.back, model.back.attention_paths["cross"][-1]) as theirs,
    ):
        plain = [task.loss(model.ahead, pairs)[0], task.loss(model.back, reversed_batch(pairs))[0]]
    a, b = (
        torch.cat([one.weights for one in seen[way.attention_paths["cross"][-1]]], -2)
        for seen, way in ((ours, model.ahead), (theirs, model.back))
    )
    a, b = (x if x.dim() == 3 else x.mean(1) for x in (a, b))
    bonus = trace(a[0, :4, :3], b[0, :3, :4]) + trace(a[1, :2, :2], b[1, :2, :2])
    torch.testing.assert_close(loss, plain[0] + plain[1] - 0.7 * bonus)
    assert ahead_of(model) is model.ahead
    assert ahead_of(model.back) is model.back
    optimiser = torch.optim.Adam(model.parameters(), 0.02)
    before = agreement(model, pairs)
    for _ in range(30):
        optimiser.zero_grad()
        task.loss(model, pairs)[0].backward()
        optimiser.step()
    assert agreement(model, pairs) > before


def agreement(model, pairs):
    back = reversed_batch(pairs)
    found = []
    for way, some in ((model.ahead, pairs), (model.back, back)):
        with torch.no_grad(), record(way, way.attention_paths["cross"][-1]) as seen:
            way(some["source"], some.lengths["source"], target_in(some["target"]))
        found.append(between_words(concat_steps(seen[way.attention_paths["cross"][-1]]), some))
    return float(trace(*found).sum())


@models
def test_an_idle_batch_adds_nothing(name):
    idle = batch(idle=True)
    task = problem()
    for model in (
        make(name, bias=("global-fertility",)),
        TwoWay(make(name), make(name, BACK), gamma=1.0),
    ):
        loss, tokens = task.loss(model, idle)
        loss.backward()
        assert tokens == 0
        assert float(loss) == 0
        assert not any(p.grad is not None and p.grad.any() for p in model.parameters())
