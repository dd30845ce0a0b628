"""Copying: the mixture by its definition, in every model that can, step by step as in the whole."""

import pytest
import torch
from torch.nn import functional as F

from regard.decoding import beam, greedy, rescore
from regard.models import TRANSLATORS
from regard.models.parts.copy_mechanism import Pointing
from regard.testing import check_causal, check_padding

V = 11
SOURCE = torch.tensor([[4, 11, 6, 12, 11], [9, 10, 4, 0, 0], [5, 11, 7, 9, 0]])  # 11, 12: unknown words
LENGTHS = torch.tensor([5, 3, 4])
TARGET = torch.tensor([[1, 5, 11, 7, 12, 9, 4], [1, 10, 4, 7, 0, 0, 0], [1, 7, 11, 5, 10, 6, 0]])
SETTINGS = {
    "bahdanau": {},
    "luong": {},
    "luong without feeding": {"input_feeding": False},
    "transformer": {"heads": 2, "inner": 16, "layers": 2},
}
every_model = pytest.mark.parametrize("name", SETTINGS)
every_kind = pytest.mark.parametrize("kind", ["gate", "sentinel"])


def make(name, kind):
    torch.manual_seed(0)
    settings = {"source_vocabulary": V, "target_vocabulary": V, "width": 8, "copy": kind, **SETTINGS[name]}
    model = TRANSLATORS[name.split()[0]].make(**settings).double().eval()
    for p in model.copying.parameters():
        torch.nn.init.normal_(p)
    return model


def read(model, source, target):
    return model.logits(model(source, LENGTHS, target))


@every_model
@every_kind
def test_p_is_the_mixture(name, kind):
    model = make(name, kind)
    with torch.no_grad():
        pointing = model(SOURCE, LENGTHS, TARGET)
        log_p = model.logits(pointing)
        made = F.linear(pointing.hidden, *model.vocabulary()).softmax(-1)
    assert log_p.shape == (3, 7, V + 2)
    torch.testing.assert_close(log_p.exp().sum(-1), torch.ones(3, 7, dtype=torch.float64))
    for b, length in enumerate(LENGTHS.tolist()):
        for m in range(7):
            generate = pointing.log_generate[b, m].exp()
            p = {y: generate * made[b, m, y] for y in range(V)}
            for j in range(length):
                word = int(SOURCE[b, j])
                p[word] = p.get(word, 0) + pointing.copy[b, m, j]
            assert pointing.copy[b, m].sum() == pytest.approx(1 - float(generate))
            for y in range(V + 2):
                assert log_p[b, m, y].exp() == pytest.approx(float(p.get(y, 0.0)), abs=1e-12)


@every_model
@every_kind
def test_steps_equal_the_whole_and_a_beam_needs_no_repeated_memory(name, kind):
    model, k = make(name, kind), 2
    with torch.inference_mode():
        whole = read(model, SOURCE, TARGET)
        memory = model.encode(SOURCE, LENGTHS)
        state, rows = model.start(memory), torch.arange(3).repeat_interleave(k)
        state = state.select(rows)
        for i, tokens in enumerate(TARGET.unbind(1)):
            hidden, state = model.step(tokens[rows], state, memory)
            torch.testing.assert_close(model.logits(hidden), whole[rows, i], rtol=0, atol=1e-11)


@every_model
@every_kind
def test_the_loss_and_its_gradients_are_those_of_the_mixture(name, kind):
    model = make(name, kind)
    wanted = torch.tensor([11, 4, 7, 12, 2])
    pointing = model(SOURCE[:1], LENGTHS[:1], TARGET[:1, :5])[0]
    parameters = list(model.parameters())
    by_loss = model.loss(pointing, wanted)
    by_definition = F.nll_loss(model.logits(pointing), wanted, reduction="sum")
    torch.testing.assert_close(by_loss, by_definition)
    ours = torch.autograd.grad(by_loss, parameters, retain_graph=True)
    for mine, theirs in zip(ours, torch.autograd.grad(by_definition, parameters), strict=True):
        torch.testing.assert_close(mine, theirs)
    smooth = model.loss(model(SOURCE[:1], LENGTHS[:1], TARGET[:1, :5])[0], wanted, 0.1)
    uniform = -F.linear(pointing.hidden, *model.vocabulary()).log_softmax(-1).mean(-1).sum()
    torch.testing.assert_close(smooth, 0.9 * by_loss + 0.1 * uniform)


@every_model
@every_kind
def test_padding_and_the_future_change_nothing(name, kind):
    model = make(name, kind)
    known = SOURCE.clamp(max=V - 1)
    check_padding(
        lambda source, lengths: model.logits(model(source, lengths, TARGET)).exp().flatten(1),
        known,
        LENGTHS,
        vocabulary=V,
        atol=1e-12,
    )
    check_causal(lambda t: read(model, SOURCE, t).exp(), TARGET, vocabulary=V, atol=1e-12)


@every_model
@every_kind
def test_a_beam_scores_what_it_copies_as_the_model_does(name, kind):
    model = make(name, kind)
    found = beam(model, SOURCE, LENGTHS, width=3, alpha=0.0)
    targets = [hypotheses[0].tokens for hypotheses in found]
    assert rescore(model, SOURCE, LENGTHS, targets) == pytest.approx([h[0].log_prob for h in found])
    assert greedy(model, SOURCE, LENGTHS)[0][0].tokens == beam(model, SOURCE, LENGTHS, width=1)[0][0].tokens


def test_the_share_that_is_copied():
    pointing = Pointing(
        torch.zeros(3, 1),
        torch.tensor([0.5, 0.5, 0.5]).log(),
        torch.tensor([[0.25, 0.25]] * 3),
        torch.tensor([[4, 5]] * 3),
    )
    logits = torch.tensor([0.25] * 4).log().expand(3, 4)  # words 0 to 3
    assert pointing.copied(logits, torch.tensor([3, 4, 5])).tolist() == [0.0, 1.0, 1.0]
    pointing = Pointing(
        *(getattr(pointing, name) for name in ("hidden", "log_generate", "copy")), pointing.words - 2
    )
    assert pointing.copied(logits, torch.tensor([1, 2, 3])).tolist() == pytest.approx([0, 2 / 3, 2 / 3])


def test_two_vocabularies_cannot_share_words():
    with pytest.raises(ValueError, match="needs one vocabulary for both sides"):
        TRANSLATORS["luong"].make(source_vocabulary=5, target_vocabulary=6, copy="gate")
    with pytest.raises(ValueError, match="copy must be"):
        TRANSLATORS["luong"].make(source_vocabulary=5, target_vocabulary=5, copy="yes")


@every_model
def test_without_copying_nothing_is_new(name):
    torch.manual_seed(0)
    settings = {"source_vocabulary": V, "target_vocabulary": V, "width": 8, **SETTINGS[name]}
    model = TRANSLATORS[name.split()[0]].make(**settings)
    assert model.copying is None
    assert not [key for key in model.state_dict() if "copying" in key]
