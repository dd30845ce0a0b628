"""Leave-one-out against itself done by hand, one token at a time."""

import sys

import pytest
import torch

from explanations.toys import MASK, classifier, log_odds, texts
from regard.explanations import leave_one_out
from regard.models.classifiers import CLASSIFIERS


def one_at_a_time(model, tokens, target, by, measure):
    """Scores (n,) of one text of tokens (n,)."""
    logits, scores = model(tokens[None], torch.tensor([len(tokens)])), []
    for j in range(len(tokens)):
        if by == "delete":
            rest = torch.cat([tokens[:j], tokens[j + 1 :]])
            without = model(rest[None], torch.tensor([len(rest)]))
        elif by == "zero":
            x = model.embed(tokens[None]).clone()
            x[0, j] = 0
            length = torch.tensor([len(tokens)])
            without = model.from_embedded(x, length, model.condition(tokens[None], length))
        else:
            changed = tokens.clone()
            changed[j] = by
            without = model(changed[None], torch.tensor([len(tokens)]))
        if measure == "fall":
            scores.append(log_odds(logits, target) - log_odds(without, target))
        else:
            scores.append((logits.softmax(-1) - without.softmax(-1)).abs().sum(-1, keepdim=True)[0] / 2)
    return torch.cat(scores)


@pytest.mark.parametrize("measure", ["fall", "tvd"])
@pytest.mark.parametrize("by", ["delete", "zero", MASK])
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_all_at_once_is_one_at_a_time(kind, by, measure, monkeypatch):
    module = sys.modules["regard.explanations.leave_one_out"]  # the name is that of the function, too
    monkeypatch.setattr(module, "TOKENS", 25)  # in several batches
    model, (tokens, lengths) = classifier(kind), texts()
    found = leave_one_out(model, tokens, lengths, by=by, measure=measure)
    model.eval()
    with torch.no_grad():
        for text, n in enumerate(lengths):
            target = model(tokens[text : text + 1], lengths[text : text + 1]).argmax(-1)
            slow = one_at_a_time(model, tokens[text, :n], target, by, measure)
            torch.testing.assert_close(found[text, :n], slow)
            assert not found[text, n:].any()


def test_it_needs_no_derivative():
    """Correction 12: Taylor and coefficients are of gradients; this does for a function that has none."""

    def counts(tokens, lengths):
        there = (tokens == 5) & (torch.arange(tokens.shape[1]) < lengths.unsqueeze(-1))
        return torch.stack([there.sum(-1), -there.sum(-1)], -1).float()

    tokens, lengths = torch.tensor([[5, 2, 5, 3], [2, 5, 5, 5]]), torch.tensor([4, 2])
    assert leave_one_out(counts, tokens, lengths, target=0).tolist() == [[1, 0, 1, 0], [0, 1, 0, 0]]


def test_a_token_in_its_place_can_speak_for_the_class():
    def counts(tokens):
        return (tokens == 5).sum(-1, keepdim=True).float()

    assert leave_one_out(counts, torch.tensor([[5, 2]]), by=5).tolist() == [[0, -1]]


def test_tvd_is_between_0_and_1_whatever_the_class():
    model, (tokens, lengths) = classifier("attentive_cnn"), texts()
    found = [leave_one_out(model, tokens, lengths, measure="tvd", target=c) for c in range(3)]
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
    assert found[0].min() >= 0 and found[0].max() <= 1
