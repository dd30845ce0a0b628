"""Models that answer questions: their formulas, padding, old sentences, and that they learn."""

from itertools import islice
from typing import ClassVar

import pytest
import torch
from torch.nn import functional as F

import regard
from regard.data.corpora import STORIES
from regard.models.answering import ANSWER_MODELS
from regard.models.answering.answer_model import ages, recent
from regard.models.parts.position_encoding import encode_sentences
from regard.runs import fit, resolve

every_model = pytest.mark.parametrize("name", ANSWER_MODELS)
STORY = torch.tensor([[[4, 5, 6], [7, 8, 0], [9, 4, 0]], [[5, 6, 7], [0, 0, 0], [0, 0, 0]]])
QUESTION, LENGTHS = torch.tensor([[4, 8, 0], [9, 0, 0]]), torch.tensor([3, 1])


def make(name, **settings):
    torch.manual_seed(0)
    sizes = {"vocabulary": 12, "answers": (5, 7, 9), "memory": 6, "width": 8, "hops": 3}
    return ANSWER_MODELS[name].make(**{**sizes, **settings}).double().eval()


def slow_sentence(table, words):
    """Σ_j l_j ∘ E(w_j), a number at a time."""
    words = [word for word in words if word]
    d, count = table.shape[1], len(words)
    found = torch.zeros(d).double()
    for j, word in enumerate(words, 1):
        for k in range(1, d + 1):
            found[k - 1] += 2 * ((1 - j / count) - (k / d) * (1 - 2 * j / count)) * table[word, k - 1]
    return found


def test_position_encoding_by_its_formula():
    table = torch.randn(12, 10).double()
    found = encode_sentences(table, STORY, 5)  # two tables side by side
    assert found.shape == (2, 3, 2, 5)
    for b in range(2):
        for n in range(3):
            for t in range(2):
                expected = slow_sentence(table[:, 5 * t : 5 * t + 5], STORY[b, n].tolist())
                torch.testing.assert_close(found[b, n, t], expected)
    bag = encode_sentences(table, STORY, 10, ordered=False)[0, 0, 0]
    torch.testing.assert_close(bag, table[[4, 5, 6]].sum(0))
    assert encode_sentences(table, torch.zeros(2, 3, dtype=torch.long), 5).abs().sum() == 0


@pytest.mark.parametrize("empty", [True, False])
def test_a_memory_network_by_its_formulas(empty):
    model = make("memory_network", empty=empty)
    tables, times = model.words.split(8, 1), model.times.split(8, 1)
    u = slow_sentence(tables[0], [4, 8])
    for k in range(3):
        m, c = (torch.stack([slow_sentence(tables[k + i], s) for s in STORY[0].tolist()]) for i in (0, 1))
        m, c = m + times[k][[2, 1, 0]], c + times[k + 1][[2, 1, 0]]
        if empty:  # a memory of six places, three of them empty
            m, c = (F.pad(each, (0, 0, 0, 3)) for each in (m, c))
        u = u + (m @ u).softmax(0) @ c
    expected = tables[3][[5, 7, 9]] @ u
    torch.testing.assert_close(model(STORY, QUESTION, LENGTHS)[0], expected)


def test_linear_start_is_without_softmax_and_ends():
    model = make("memory_network", hops=1, linear_start=1, noise=0.0).train()
    tables, times = model.words.split(8, 1), model.times.split(8, 1)
    u = slow_sentence(tables[0], [9])
    m, c = (slow_sentence(tables[i], [5, 6, 7]) + times[i][0] for i in (0, 1))
    linear = tables[1][[5, 7, 9]] @ (u + (m @ u) * c)
    torch.testing.assert_close(model(STORY, QUESTION, LENGTHS)[1], linear)
    weight = (m @ u).exp() / ((m @ u).exp() + 5)  # one sentence, and five empty places
    usual = tables[1][[5, 7, 9]] @ (u + weight * c)
    torch.testing.assert_close(model(STORY, QUESTION, LENGTHS)[1], usual)
    assert int(model.seen) == 2
    model.eval()
    torch.testing.assert_close(
        make("memory_network", hops=1, linear_start=9)(STORY, QUESTION, LENGTHS)[1], usual
    )


@every_model
def test_padding_changes_nothing_and_hops_are_weights(name):
    model = make(name)
    wide = F.pad(STORY, (0, 2, 0, 2))
    wide[1, 3:] = 11  # sentences beyond the length
    torch.testing.assert_close(model(wide, F.pad(QUESTION, (0, 3)), LENGTHS), model(STORY, QUESTION, LENGTHS))
    with regard.record(model, model.attention_paths["reader"]) as seen:
        model(STORY, QUESTION, LENGTHS)
    assert len(seen) == 3
    for calls in seen.values():
        weights, sink = calls[0].weights, calls[0].sink
        shared = torch.zeros(2, 1).double() if sink is None else 1 - weights.sum(-1)
        assert (shared > -1e-12).all() and (sink is None) == (name != "memory_network")
        torch.testing.assert_close(weights.sum(-1) + shared, torch.ones(2, 1).double())
        assert weights[1, 0, 1:3].abs().sum() == 0


@every_model
def test_sentences_older_than_its_memory_are_not_looked_at(name):
    model = make(name, memory=2)
    changed = STORY.clone()
    changed[0, 0] = 10
    torch.testing.assert_close(model(changed, QUESTION, LENGTHS), model(STORY, QUESTION, LENGTHS))


@pytest.mark.parametrize(
    "settings", [{"tying": "layer_wise"}, {"ordered": False}, {"map": "entmax15"}, {"hops": 1}]
)
def test_settings_of_a_memory_network_have_gradients(settings):
    model = make("memory_network", **settings).train()
    model(STORY, QUESTION, LENGTHS).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize("settings", [{}, {"values": "last"}])
def test_settings_of_a_key_value_memory_have_gradients(settings):
    model = make("key_value_memory", **settings).train()
    model(STORY, QUESTION, LENGTHS).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


def test_ages_and_noise():
    lengths = torch.tensor([5, 2, 0])
    plain = ages(lengths, 5)
    assert plain[0].tolist() == [4, 3, 2, 1, 0] and plain[1, :2].tolist() == [1, 0]
    torch.manual_seed(0)
    lengths = torch.full((200,), 20)
    noisy = ages(lengths, 20, 0.1)
    assert bool((noisy.diff(dim=-1) < 0).all())  # still in order
    assert int(noisy.max()) == 21 and bool((noisy >= ages(lengths, 20)).all())
    assert 0.5 < float((noisy[:, 0] > 19).float().mean()) < 0.9  # none, one or two places are free
    assert recent(plain, torch.tensor([5, 2, 0]), 3).squeeze(1).sum(-1).tolist() == [3, 2, 0]


def test_strong_supervision_counts_sentences_up_to_no_more():
    model = make("strong_memory_network", noise=0.0)

    class Batch(dict):
        lengths: ClassVar = {"story": LENGTHS}

    batch = Batch(
        story=STORY, question=QUESTION, answer=torch.tensor([0, 2]), facts=torch.tensor([[2, 0], [-1, -1]])
    )
    logits, found = model.chosen(STORY, QUESTION, LENGTHS, batch["facts"])
    expected = F.cross_entropy(logits, batch["answer"], reduction="sum")
    expected = expected - found[0, 0, 2] - found[0, 1, 0] - found[0, 2, 3] - found[1, 0, 3]
    torch.testing.assert_close(model.loss(batch), expected)


@pytest.mark.parametrize(
    ("name", "more"),
    [("memory_network", {}), ("key_value_memory", {"values": "last"}), ("strong_memory_network", {})],
)
def test_each_learns_where_somebody_is(name, more, tmp_path):
    values = {
        "task": "answering",
        "data": {"corpus": "one_fact", "questions": 1500, "held_out": 100},
        "model": {"name": name, "width": 20, "hops": 1, **more},
        "training": {
            "steps": 120, "rate": 0.03, "validate": 120, "linear_start": 0.0, "warmup": 10,
            "optimiser": "adam", "examples": 64, "clip": 40.0,
        },
    }  # fmt: skip
    done = fit(resolve(values), tmp_path / "run")
    assert done.scores["accuracy"] > 0.9
    stories = list(islice(STORIES["one_fact"](9, "test"), 40))
    shown = done.system.hop_weights(done.system.answer([(one.story, one.question) for one in stories]))
    facts = torch.tensor([one.facts[0] for one in stories])
    assert float((shown[:, 0].argmax(-1) == facts).float().mean()) > 0.8
