"""DiffMask: gates keep what the model needs; where every mask can be tried, the fewest words."""

from itertools import combinations

import pytest
import torch
from torch import nn

from explanations.toys import classifier, texts
from regard.explanations import diffmask
from regard.explanations.diffmask import Gates, divergence, learn_gates, states
from regard.models.parts.hard_concrete import LOW, open_probability, sample_gates
from regard.models.subject import real, subject

EVIDENCE = {2: 0, 3: 1, 4: 2}  # token: the class it speaks for; 5 and above say nothing


class Evidence(nn.Module):
    """logits = 6 · how often a class is spoken for."""

    def __init__(self):
        super().__init__()
        self.E = nn.Embedding(12, 6)
        with torch.no_grad():
            nn.init.normal_(self.E.weight, generator=torch.Generator().manual_seed(0))
            self.E.weight[:, :3] = 0
            for token, label in EVIDENCE.items():
                self.E.weight[token, label] = 6.0
        self.double()

    def embed(self, tokens):
        return self.E(tokens)

    def from_embedded(self, embedded, lengths):
        there = real(lengths, embedded.shape[1]).unsqueeze(-1)
        return torch.where(there, embedded, 0)[..., :3].sum(1)

    def forward(self, tokens, lengths):
        return self.from_embedded(self.embed(tokens), lengths)


def evidence_texts(count=128, n=6):
    """One word of evidence among others that say nothing; half of the texts are shorter."""
    chance = torch.Generator().manual_seed(1)
    tokens = torch.randint(5, 12, (count, n), generator=chance)
    lengths = torch.where(torch.arange(count) % 2 == 0, n, n - 2)
    where = (torch.rand(count, generator=chance) * lengths).long()
    tokens[torch.arange(count), where] = torch.randint(2, 5, (count,), generator=chance)
    return tokens, lengths


def fewest(model, gates, tokens, margin):
    """The smallest set of words of one text that loses at most the margin: every set is tried."""
    x, lengths = model.embed(tokens[None]), torch.tensor([len(tokens)])
    said = model.from_embedded(x, lengths).log_softmax(-1)
    for size in range(len(tokens) + 1):
        for kept in combinations(range(len(tokens)), size):
            v = torch.zeros(1, len(tokens), dtype=x.dtype)
            v[0, list(kept)] = 1
            if divergence(said, model.from_embedded(gates.masked(x, v), lengths).log_softmax(-1)) <= margin:
                return set(kept)
    raise AssertionError("all words lose nothing")


def test_gates_find_the_fewest_words():
    model, (tokens, lengths) = Evidence(), evidence_texts()
    gates = learn_gates(model, tokens, lengths, margin=0.1)
    scores = gates(tokens, lengths)
    kept = scores > 0.5
    for row, n, found in zip(tokens[:20], lengths[:20], kept[:20], strict=True):
        assert set(found[:n].nonzero().flatten().tolist()) == fewest(model, gates, row[:n], 0.1)
    x, said = model.embed(tokens), model(tokens, lengths).log_softmax(-1)
    heard = model.from_embedded(gates.masked(x, kept.double()), lengths).log_softmax(-1)
    assert divergence(said, heard) <= 0.1
    others, their_lengths = (part[:64] for part in evidence_texts(200, 8))  # texts never seen
    assert torch.equal(gates(others, their_lengths) > 0.5, (others < 5) & real(their_lengths, 8))


def test_by_name_each_text_has_gates_of_its_own():
    """One word of evidence suffices; of two for the same class one is enough, and both may stay."""
    model = Evidence()
    tokens, lengths = torch.tensor([[5, 3, 7, 8, 9], [6, 9, 4, 0, 0]]), torch.tensor([5, 3])
    scores = diffmask(model, tokens, lengths)
    assert (scores > 0.5).tolist() == [[False, True, False, False, False], [False, False, True, False, False]]
    learned = learn_gates(model, *evidence_texts(), steps=5)
    assert torch.equal(diffmask(model, tokens, lengths, gates=learned), learned(tokens, lengths))


def test_a_target_is_kept_apart_from_all_else():
    """Evidence for class 1 and against it: what else is said of classes 0 and 2 does not matter."""
    model, tokens = Evidence(), torch.tensor([[2, 3, 3, 7, 8, 9]])
    kept = {target: diffmask(model, tokens, target=target)[0] > 0.5 for target in (None, 1, 2)}
    assert kept[1][1] or kept[1][2]
    assert not kept[1][3:].any() and not kept[None][3:].any()
    assert not torch.equal(kept[1], kept[2])


def test_hard_concrete_gates_are_open_as_often_as_is_said():
    noise = (torch.arange(10_000, dtype=torch.float64) + 0.5) / 10_000
    for theta in (-3.0, -0.5, 0.0, 2.0):
        v = sample_gates(torch.full_like(noise, theta), noise)
        assert v.min() >= 0 and v.max() <= 1
        assert (v > 0).double().mean().item() == pytest.approx(
            open_probability(torch.tensor(theta)).item(), abs=1e-3
        )
    assert LOW < 0 < open_probability(torch.tensor(0.0)).item()


def test_divergence_is_that_of_the_definition():
    chance = torch.Generator().manual_seed(0)
    said, heard = (torch.randn(3, 4, generator=chance, dtype=torch.float64).log_softmax(-1) for _ in range(2))
    slow = sum((said[i, c].exp() * (said[i, c] - heard[i, c])).item() for i in range(3) for c in range(4)) / 3
    assert divergence(said, heard).item() == pytest.approx(slow)


@pytest.mark.parametrize("read", ["attention", "first"])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_gates_of_every_layer(read, layer):
    model, (tokens, lengths) = classifier("transformer_encoder", read=read), texts()
    gates = learn_gates(model, tokens, lengths, layer=layer, steps=2)
    scores = gates(tokens, lengths)
    assert scores.shape == tokens.shape and not scores.requires_grad
    assert ((scores > 0) == real(lengths, 6)).all() and (scores < 1).all()
    for row, of, n in zip(scores, tokens, lengths, strict=True):  # padding and the other texts change nothing
        torch.testing.assert_close(gates(of[None, :n], n[None])[0], row[:n])


def test_states_are_those_of_the_layer():
    model, (tokens, lengths) = classifier("transformer_encoder").eval(), texts()
    asked = subject(model, tokens, lengths)
    x = model.embed(tokens)
    assert torch.equal(states(asked, 0), x)
    x = x + model.places(6, like=x)
    for layer in (1, 2):
        x = model.encoder[layer - 1](x, lengths)
        there = real(lengths, 6)
        torch.testing.assert_close(states(asked, layer)[there], x[there])
    assert not model.encoder[0]._forward_hooks


def test_nothing_about_the_model_changes():
    model, (tokens, lengths) = classifier("attentive_mlp"), texts()
    model.read.bias.requires_grad_(False)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    state = torch.get_rng_state()
    with torch.no_grad():  # whatever the caller is in
        gates = learn_gates(model, tokens, lengths, steps=3)
    assert torch.equal(torch.get_rng_state(), state)
    assert isinstance(gates, Gates) and len(gates.state_dict()) == 5  # none of them the model's
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert model.training and all(p.grad is None for p in model.parameters())
    assert [name for name, p in model.named_parameters() if not p.requires_grad] == ["read.bias"]
    again = learn_gates(model, tokens, lengths, steps=3)
    assert torch.equal(gates(tokens, lengths), again(tokens, lengths))


def test_pairs_of_texts():
    model, (tokens, lengths) = classifier("attentive_bilstm", pairs=True), texts()
    second = tokens.flip(0), lengths.flip(0)
    gates = learn_gates(model, tokens, lengths, steps=2, second=second)
    assert gates(tokens, lengths, second=second).shape == tokens.shape


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"layer": 1}, "from 0, the words, to 0"),
        ({"layer": -1}, "got -1"),
        ({"margin": 0.0}, "margin"),
        ({"steps": 0}, "steps"),
    ],
)
def test_what_is_wrong_is_said_at_once(own, words):
    with pytest.raises(ValueError, match=words):
        learn_gates(classifier("attentive_mlp"), *texts(), **own)


def test_a_function_has_no_states():
    with pytest.raises(ValueError, match="leave_one_out"):
        learn_gates(lambda tokens, lengths: torch.zeros(4, 2), *texts())


def test_the_fewest_words_within_the_margin_are_kept():
    """More steps never keep more words, over the texts that were learned from."""
    model, (tokens, lengths) = Evidence(), evidence_texts(64)
    counts = []
    for steps in (100, 200, 400):
        gates = learn_gates(model, tokens, lengths, margin=0.1, steps=steps)
        kept = gates(tokens, lengths) > 0.5
        heard = model.from_embedded(gates.masked(model.embed(tokens), kept.double()), lengths)
        assert divergence(model(tokens, lengths).log_softmax(-1), heard.log_softmax(-1)) <= 0.1
        counts.append(int(kept.sum()))
    assert counts == sorted(counts, reverse=True)
