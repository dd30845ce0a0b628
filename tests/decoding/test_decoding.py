"""Greedy, drawing and beam search, on a model that can be enumerated."""

import math
from collections import Counter

import pytest
import torch

from decoding.toy import Table
from regard.core.tokens import EOS
from regard.decoding import Limits, beam, greedy, penalty, rescore, sample
from regard.decoding.sampling import cut

SOURCE, LENGTHS = torch.arange(4).unsqueeze(-1), torch.ones(4, dtype=torch.long)
SHORT = Limits(scale=0, extra=4)


def tokens(found):
    return [h[0].tokens for h in found]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_an_exhaustive_beam_finds_the_best_of_all(alpha, seed):
    model = Table(seed=seed)
    every = list(model.all(4))
    found = beam(model, SOURCE, LENGTHS, SHORT, width=4**4, alpha=alpha, best=5)
    for source in range(4):
        scores = sorted(
            ((model.log_prob(source, t) / penalty(len(t) + 1, alpha), t) for t in every), reverse=True
        )
        for hypothesis, (score, target) in zip(found[source], scores, strict=False):
            assert hypothesis.tokens == target
            assert hypothesis.score == pytest.approx(score)
        assert len(found[source]) == 5


@pytest.mark.parametrize("width", [1, 2, 5])
def test_its_scores_are_the_models_own(width):
    model = Table(letters=5, sharp=1.0)
    found = beam(model, SOURCE, LENGTHS, Limits(0, 12), width=width, alpha=0.8, best=width)
    for best in range(width):
        targets = [h[min(best, len(h) - 1)] for h in found]
        again = rescore(model, SOURCE, LENGTHS, [h.tokens for h in targets])
        assert [h.log_prob for h in targets] == pytest.approx(again, abs=1e-9)
        assert again == pytest.approx([model.log_prob(s, h.tokens) for s, h in enumerate(targets)], abs=1e-9)
        assert [h.score for h in targets] == pytest.approx(
            [p / penalty(len(h.tokens) + 1, 0.8) for h, p in zip(targets, again, strict=True)]
        )
    for hypotheses in found:
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_beam_of_one_is_greedy(seed, alpha):
    model = Table(letters=6, seed=seed, sharp=1.0)
    narrow, greedily = beam(model, SOURCE, LENGTHS, width=1, alpha=alpha), greedy(model, SOURCE, LENGTHS)
    assert tokens(narrow) == tokens(greedily)
    assert [h[0].log_prob for h in narrow] == pytest.approx([h[0].log_prob for h in greedily])


def test_a_wider_beam_can_find_a_worse_target():
    """So that nobody takes the width for a guarantee."""
    worse, limits = 0, Limits(0, 12)
    for seed in range(20):
        model = Table(letters=8, seed=seed, sharp=1.0)
        model.table[..., EOS] -= 2  # long enough to go astray
        two, one = (
            beam(model, SOURCE, LENGTHS, limits, width=2, alpha=0),
            greedy(model, SOURCE, LENGTHS, limits),
        )
        worse += sum(a[0].log_prob < b[0].log_prob - 1e-9 for a, b in zip(two, one, strict=True))
    assert 0 < worse < 40  # of 80


def test_a_batch_is_its_sentences_one_by_one():
    model, limits = Table(letters=6, sharp=1.0), Limits(scale=2, extra=3)
    source, lengths = torch.tensor([[2], [0], [3], [2], [1]]), torch.tensor([1, 4, 2, 3, 1])
    for decode in (greedy, lambda *a: beam(*a, width=3, best=2)):
        together = decode(model, source, lengths, limits)
        alone = [decode(model, source[i : i + 1], lengths[i : i + 1], limits)[0] for i in range(5)]
        assert [[h.tokens for h in hs] for hs in together] == [[h.tokens for h in hs] for hs in alone]
        assert all(len(hs[0].tokens) < limits.of(lengths)[i] for i, hs in enumerate(together))


def test_limits_are_kept_and_end_in_an_end():
    model = Table(letters=6, sharp=0.1)
    model.table[..., EOS] = -30.0  # it would never stop
    for found in (greedy(model, SOURCE, LENGTHS, SHORT), beam(model, SOURCE, LENGTHS, SHORT)):
        assert [len(h[0].tokens) for h in found] == [3] * 4
        assert [h[0].log_prob for h in found] == pytest.approx(
            rescore(model, SOURCE, LENGTHS, tokens(found)), abs=1e-9
        )
    assert Limits(scale=0, extra=0).of(LENGTHS).tolist() == [1] * 4
    assert tokens(greedy(model, SOURCE, LENGTHS, Limits(0, 1))) == [[]] * 4
    assert Limits(1.5, 2, most=7).of(torch.tensor([1, 2, 100])).tolist() == [3, 5, 7]


def test_nothing_gives_nothing():
    empty = SOURCE[:0], LENGTHS[:0]
    assert greedy(Table(), *empty) == beam(Table(), *empty) == sample(Table(), *empty) == []


def test_draws_follow_the_model():
    model, count = Table(letters=2, sharp=1.0), 4000
    source, lengths = torch.zeros(count, 1, dtype=torch.long), torch.ones(count, dtype=torch.long)
    found = sample(model, source, lengths, Limits(0, 3), generator=torch.Generator().manual_seed(0))
    seen = Counter(tuple(h[0].tokens) for h in found)
    for target in [[], [3], [4], [5]]:  # those that end of themselves
        p = math.exp(model.log_prob(0, target))
        assert abs(seen[tuple(target)] / count - p) < 4 * math.sqrt(p * (1 - p) / count)
    again = sample(model, source, lengths, Limits(0, 3), generator=torch.Generator().manual_seed(0))
    assert again == found
    assert [h[0].log_prob for h in found[:9]] == pytest.approx(
        [model.log_prob(0, h[0].tokens) for h in found[:9]]
    )


def test_a_cold_draw_is_greedy_and_cuts_are_kept():
    model = Table(letters=6, sharp=1.0)
    cold = sample(model, SOURCE, LENGTHS, temperature=1e-6)
    assert tokens(cold) == tokens(greedy(model, SOURCE, LENGTHS))
    assert tokens(sample(model, SOURCE, LENGTHS, top_k=1)) == tokens(greedy(model, SOURCE, LENGTHS))
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()[:, [2, 0, 3, 1]]
    assert (cut(logits, 2, 1.0) > -torch.inf).tolist() == [[False, True, False, True]]
    assert (cut(logits, 0, 0.8) > -torch.inf).tolist() == [[False, True, False, True]]
    assert (cut(logits, 0, 0.81) > -torch.inf).tolist() == [[True, True, False, True]]
    assert (cut(logits, 0, 1e-9) > -torch.inf).sum() == 1


@pytest.mark.parametrize(
    ("decode", "says"),
    [
        (lambda *a: beam(*a, width=0), "width must be at least 1"),
        (lambda *a: beam(*a, width=2, best=3), "best from 1 to width"),
        (lambda *a: beam(*a, alpha=-1.0), r"alpha \(below 100\) and coverage must be at least 0"),
        (lambda *a: beam(*a, coverage=0.2), "coverage needs a model that attends"),
        (lambda *a: sample(*a, temperature=0), "temperature must be more than 0"),
        (lambda *a: sample(*a, top_p=0), "top_p in"),
    ],
)
def test_impossible_settings_are_named(decode, says):
    with pytest.raises(ValueError, match=says):
        decode(Table(), SOURCE, LENGTHS)
