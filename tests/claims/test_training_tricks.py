"""C56, label smoothing, and C57, dropout, beam search with a length penalty, warm-up and decay.

What warm-up does for a post-norm model is in test_depth.py; that a beam wide enough finds the best of
all, and that a wider one can find a worse, in tests/decoding.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from claims.experiment import (
    FIRST,
    SEEDS,
    Pairs,
    accuracy,
    exact,
    held,
    over_seeds,
    read_real,
    report,
    train,
    translation_loss,
)
from regard.core.tokens import EOS
from regard.data.corpora import dictionary, reverse
from regard.decoding import Limits, beam, greedy, penalty
from regard.models import TRANSLATORS

# C56 and C57: label smoothing, dropout and decay, on a dictionary whose targets are wrong now and then


NOISE, FEW = 0.1, 256


@pytest.fixture(scope="module")
def pairs():
    return Pairs(dictionary, vocabulary=10, shortest=3, longest=6)


def noisy(batch, generator):
    """One target word in ten is another one, drawn."""
    target = batch["target"].clone()
    wrong = (target >= FIRST) & (torch.rand(target.shape, generator=generator) < NOISE)
    target[wrong] = torch.randint(FIRST, FIRST + 10, (int(wrong.sum()),), generator=generator)
    return replace(batch, fields={**batch.fields, "target": target})


def plenty(pairs, seed):
    """Never the same pair twice."""
    generator = torch.Generator().manual_seed(seed)
    for batch in pairs.train(seed, 32):
        yield noisy(batch, generator)


def few(pairs, seed):
    """The same pairs over and over, with the same mistakes."""
    generator, some = torch.Generator().manual_seed(seed), list(islice(pairs.stream(seed, "train"), FEW))
    return cycle([noisy(pairs.batch(some[k : k + 32]), generator) for k in range(0, FEW, 32)])


def calibration(logits, wanted, bins=15):
    """The expected difference of confidence and accuracy. Guo et al. (2017), arXiv:1706.04599, Eq. 3."""
    confidence, best = logits.softmax(-1).max(-1)
    right, bin = (best == wanted).float(), (confidence * bins).long().clamp(max=bins - 1)
    return sum(
        ((bin == k).float().mean() * (confidence[bin == k].mean() - right[bin == k].mean()).abs()).item()
        for k in bin.unique()
    )


def judged(pairs, batches, seed, steps, *, smoothing=0.0, dropout=0.0, schedule="cosine"):
    """Perplexity and calibration on targets with such mistakes, whole sentences right on targets without."""
    torch.manual_seed(seed)
    model = TRANSLATORS["transformer"].make(
        **pairs.sizes, width=32, heads=4, inner=64, layers=1, dropout=dropout, positions="learned", longest=40
    )
    train(model, batches, steps, 5e-3, schedule=schedule, loss=partial(translation_loss, smoothing=smoothing))
    clean = pairs.batch(list(islice(pairs.stream(0, "test"), 500)))
    with torch.inference_mode():
        logits, wanted = read_real(model, noisy(clean, torch.Generator().manual_seed(1000)))
    return {
        "perplexity": math.exp(F.cross_entropy(logits, wanted).item()),
        "calibration": calibration(logits, wanted),
        "sentences": exact(model, clean),
        "words": accuracy(model, clean),
    }


def compared(pairs, data, steps, **settings):
    """{what: (seeds, 2)}: without and with these settings."""

    def measure(seed):
        without = judged(pairs, data(pairs, seed), seed, steps)
        within = judged(pairs, data(pairs, seed), seed, steps, **settings)
        return {name: [without[name], within[name]] for name in without}

    return over_seeds(measure, SEEDS)


@pytest.mark.slow
def test_c56_with_plenty_of_data_smoothing_costs_perplexity_and_calibration(pairs):
    """A model that cannot overfit is confident as it should be: smoothing makes it too modest."""
    found = compared(pairs, plenty, 400, smoothing=0.1)
    report("C56 plenty, without and with smoothing", found)
    assert held(found["perplexity"] @ [-1, 1], 0)
    assert held(found["calibration"] @ [-1, 1], 0)
    assert held(found["words"] @ [-1, 1], -0.005)


@pytest.mark.slow
def test_c56_with_little_data_smoothing_helps_all_three(pairs):
    """A model that has learned 256 pairs by heart is too sure: smoothing mends that, and perplexity too."""
    found = compared(pairs, few, 600, smoothing=0.1)
    report("C56 few, without and with smoothing", found)
    assert held(1 - found["calibration"][:, 1] / found["calibration"][:, 0], 0.2)
    assert held(found["perplexity"] @ [1, -1], 0)
    assert held(found["words"] @ [-1, 1], -0.005)


@pytest.mark.slow
def test_c57_dropout_helps_where_there_is_little_data(pairs):
    found = compared(pairs, few, 600, dropout=0.2)
    report("C57 few, without and with dropout", found)
    assert held(found["perplexity"] @ [1, -1], 0)
    assert held(found["calibration"] @ [1, -1], 0)
    assert held(found["words"] @ [-1, 1], 0)


@pytest.mark.slow
def test_c57_decay_helps_where_it_is_given_time(pairs):
    """A rate that falls to 0 and a constant one, after 1,200 steps. After 400 now one is ahead and now the
    other: a falling rate ends at rest, a constant one gets further in few steps."""
    found = compared(pairs, plenty, 1200, schedule="constant")
    report("C57 plenty, with and without decay", found)
    assert held(found["perplexity"] @ [-1, 1], 0)
    assert held(found["calibration"] @ [-1, 1], 0)


# C57: beam search and the length penalty


@dataclass
class Held:
    rows: Tensor

    def select(self, index):
        return Held(self.rows[index])


class Stammer:
    """Says one word 1 to 5 times; shorter is a little likelier."""

    shares = torch.tensor([0.21, 0.205, 0.20, 0.195, 0.19], dtype=torch.float64)

    def encode(self, source, lengths):
        return Held(source[:, 0])

    def start(self, memory):
        return Held(torch.zeros_like(memory.rows))

    def step(self, tokens, state, memory):
        said = state.rows
        left = self.shares.flip(0).cumsum(0).flip(0)  # of those that say it at least so often
        stop = torch.where(said > 0, (self.shares / left)[(said - 1).clamp(0, 4)], 0.0)
        logits = torch.full((len(tokens), FIRST + 1), -torch.inf, dtype=torch.float64)
        logits[:, EOS], logits[:, FIRST] = stop.log(), (1 - stop).clamp(min=1e-300).log()
        return logits, Held(said + 1)

    def logits(self, hidden):
        return hidden


def test_c57_a_length_penalty_lengthens():
    """Without it the likeliest target is the shortest; with α = 0.6 it is the longest. By a wide beam and by
    the definition, log p / ((5 + |y|)/6)^α with |y| counting EOS."""
    model, source = Stammer(), torch.tensor([[FIRST]])
    for alpha, said in ((0.0, 1), (0.6, 5)):
        by_definition = [
            (share.log() / penalty(n + 1, alpha)).item() for n, share in enumerate(model.shares, 1)
        ]
        assert int(np.argmax(by_definition)) + 1 == said
        ((best,),) = beam(model, source, torch.tensor([1]), Limits(0, 10), width=6, alpha=alpha)
        assert best.tokens == [FIRST] * said
        assert best.score == pytest.approx(max(by_definition))


def test_c57_a_beam_finds_likelier_targets_in_the_mean_and_not_in_each():
    """By a model that has learned to reverse a little. Beam search is not monotone in its width: the share of
    sentences where a beam of 5 scores below greedy is printed, not bounded."""
    pairs = Pairs(reverse, vocabulary=10, longest=8)
    torch.manual_seed(0)
    model = TRANSLATORS["rnn"].make(**pairs.sizes, width=32, dropout=0.0)
    train(model, pairs.train(0), 60, 1e-2)
    batch = pairs.test(8, 200)
    given = batch["source"], batch.lengths["source"], Limits(1, 5)
    one, five = (
        np.array([best[0].log_prob for best in found])
        for found in (greedy(model, *given), beam(model, *given, width=5, alpha=0.0))
    )
    short, long = (
        np.mean([len(best[0].tokens) for best in beam(model, *given, width=5, alpha=alpha)])
        for alpha in (0.0, 0.6)
    )
    below = (five < one - 1e-6).mean()
    print(f"C57 log p {one.mean():.2f} greedy, {five.mean():.2f} with 5; below greedy {below:.3f}")
    print(f"C57 words {short:.2f} at α = 0, {long:.2f} at α = 0.6")
    assert five.mean() > one.mean()
    assert short <= long
