"""C56, label smoothing, and C57, dropout, beam search with a length penalty, warm-up and decay.

The toy of smoothing, dropout and decay is `dictionary` (10 words, 3–6 at a time) where one target word in ten
is another one; a `transformer` of one layer. "Plenty" is pairs that never come twice, 400 steps; "few" is 256
pairs over and over, 600 steps. Perplexity and calibration error are on targets with such mistakes, words
right on targets without.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.claims.claim import Figures, at_least, at_most, between, claim, must_fail
from regard.claims.quick import remembered, sized
from regard.claims.residuals import loss_after, toy
from regard.claims.toy_pairs import FIRST, Pairs, accuracy, read_real, train, translation_loss, translator
from regard.core.tokens import EOS
from regard.data import Batch
from regard.data.corpora import dictionary, reverse
from regard.decoding import Limits, beam, greedy

NOISE, FEW = 0.1, 256
entry = partial(claim, group="Training", fixed="c8690d8", seeds=(5, 6, 7, 8, 9))
Data = Callable[[Pairs, int], Iterator[Batch]]


def noisy(batch: Batch, generator: torch.Generator) -> Batch:
    """One target word in ten is another one, drawn."""
    target = batch["target"].clone()
    wrong = (target >= FIRST) & (torch.rand(target.shape, generator=generator) < NOISE)
    target[wrong] = torch.randint(FIRST, FIRST + 10, (int(wrong.sum()),), generator=generator)
    return replace(batch, fields={**batch.fields, "target": target})


def plenty(pairs: Pairs, seed: int) -> Iterator[Batch]:
    """Never the same pair twice."""
    generator = torch.Generator().manual_seed(seed)
    for batch in pairs.train(seed, 32):
        yield noisy(batch, generator)


def few_pairs(pairs: Pairs, seed: int) -> Iterator[Batch]:
    """The same pairs over and over, with the same mistakes."""
    generator, some = torch.Generator().manual_seed(seed), list(islice(pairs.stream(seed, "train"), FEW))
    return cycle([noisy(pairs.batch(some[k : k + 32]), generator) for k in range(0, FEW, 32)])


def calibration(logits: Tensor, wanted: Tensor, bins: int = 15) -> float:
    """The expected difference of confidence and accuracy. Guo et al. (2017), arXiv:1706.04599, Eq. 3."""
    confidence, best = logits.softmax(-1).max(-1)
    right, bin = (best == wanted).float(), (confidence * bins).long().clamp(max=bins - 1)
    parts = [
        (bin == k).float().mean() * (confidence[bin == k].mean() - right[bin == k].mean()).abs()
        for k in bin.unique()
    ]
    return float(torch.stack(parts).sum())


@remembered
def quality(
    data: Data,
    seed: int,
    steps: int,
    *,
    smoothing: float = 0.0,
    dropout: float = 0.0,
    schedule: Literal["cosine", "constant"] = "cosine",
) -> Figures:
    """Perplexity and calibration on targets with mistakes, words right on targets without."""
    pairs = Pairs(dictionary, vocabulary=10, shortest=3, longest=6)
    sizes = {"width": 32, "heads": 4, "inner": 64, "layers": 1, "positions": "learned", "longest": 40}
    model = translator("transformer", seed, **pairs.sizes, **sizes, dropout=dropout)
    loss = partial(translation_loss, smoothing=smoothing)
    train(model, data(pairs, seed), steps, 5e-3, schedule=schedule, loss=loss)
    clean = pairs.batch(pairs.held_out(500))
    with torch.inference_mode():
        logits, wanted = read_real(model, noisy(clean, torch.Generator().manual_seed(1000)))
    return {
        "perplexity": math.exp(F.cross_entropy(logits, wanted).item()),
        "calibration error": calibration(logits, wanted),
        "words right": accuracy(model, clean),
    }


def both(name: str, without: Figures, within: Figures) -> Figures:
    """Two results under one name, "without" and "with"."""
    return {
        f"{name}, {what} {how}": one[what]
        for how, one in (("without", without), ("with", within))
        for what in one
    }


def changes(name: str, what: str) -> str:
    """What is gained: the figure without, less the figure with."""
    return f"{name}, {what} without − {name}, {what} with"


@entry(
    "C56",
    says="Label smoothing hurts perplexity and helps accuracy and calibration.",
    source="004:1325",
    experiment="ε = .1, with plenty of pairs and with few.",
    control="ε = 0.",
    conditions=[
        at_most(0, changes("plenty", "perplexity"), "it hurts perplexity, with plenty of data"),
        at_least(0, changes("plenty", "calibration error"), "it helps calibration, with plenty"),
        at_most(0.005, changes("plenty", "words right"), "accuracy does not suffer"),
        at_most(0, changes("few", "perplexity"), "it hurts perplexity, with few data"),
        at_most(
            0.8,
            "few, calibration error with / few, calibration error without",
            "it helps calibration, with few",
        ),
        at_most(0.005, changes("few", "words right"), "accuracy does not suffer"),
    ],
    minutes=0.3,
    changed="Plenty and few are conditions that the runs of seeds 0 and 1 showed.",
    remark="A model that cannot overfit becomes too modest; where it is too sure both get better.",
)
def smoothing(seed: int) -> Figures:
    """Without and with smoothing, plenty and few."""
    found: Figures = {}
    for name, data, steps in (("plenty", plenty, 400), ("few", few_pairs, 600)):
        found |= both(name, quality(data, seed, steps), quality(data, seed, steps, smoothing=0.1))
    return found


@dataclass
class Kept:
    """The state of a model that only counts."""

    rows: Tensor

    def select(self, index: Tensor) -> "Kept":
        """Those of these rows."""
        return Kept(self.rows[index])


class Stammer:
    """Says one word 1 to 5 times; shorter is a little likelier."""

    shares = torch.tensor([0.21, 0.205, 0.20, 0.195, 0.19], dtype=torch.float64)

    def encode(self, source: Tensor, lengths: Tensor) -> Kept:
        """The first token."""
        return Kept(source[:, 0])

    def start(self, memory: Kept) -> Kept:
        """Nothing said."""
        return Kept(torch.zeros_like(memory.rows))

    def step(self, tokens: Tensor, state: Kept, memory: Kept) -> tuple[Tensor, Kept]:
        """Logits of saying it once more or stopping."""
        said = state.rows
        left = self.shares.flip(0).cumsum(0).flip(0)  # of those that say it at least so often
        stop = torch.where(said > 0, (self.shares / left)[(said - 1).clamp(0, 4)], 0.0)
        logits = torch.full((len(tokens), FIRST + 1), -torch.inf, dtype=torch.float64)
        logits[:, EOS], logits[:, FIRST] = stop.log(), (1 - stop).clamp(min=1e-300).log()
        return logits, Kept(said + 1)

    def logits(self, hidden: Tensor) -> Tensor:
        """As they are."""
        return hidden


def said_at(alpha: float) -> float:
    """How often the stammerer says its word, by a beam wide enough for all."""
    model: Any = Stammer()
    ((best,),) = beam(model, torch.tensor([[FIRST]]), torch.tensor([1]), Limits(0, 10), width=6, alpha=alpha)
    return float(len(best.tokens))


def beams(seed: int) -> Figures:
    """Log-probability and length of what a half-trained model writes, greedily and with a beam of 5."""
    pairs = Pairs(reverse, vocabulary=10, longest=8)
    model = translator("rnn", seed, **pairs.sizes, width=32)
    train(model, pairs.train(seed), 60, 1e-2)
    batch = pairs.test(8, sized(200, 8))
    given = batch["source"], batch.lengths["source"], Limits(1, 5)
    one, five = (
        np.array([best[0].log_prob for best in found])
        for found in (greedy(model, *given), beam(model, *given, width=5, alpha=0.0))
    )
    words = {
        f"words with α = {alpha}": float(
            np.mean([len(b[0].tokens) for b in beam(model, *given, width=5, alpha=alpha)])
        )
        for alpha in (0.0, 0.6)
    }
    return {
        "log p, greedy": float(one.mean()),
        "log p, beam of 5": float(five.mean()),
        "sentences below greedy": float((five < one - 1e-6).mean()),
        **words,
        "stammer, words with α = 0": said_at(0.0),
        "stammer, words with α = 0.6": said_at(0.6),
    }


@entry(
    "C57",
    says="Dropout, beam search with a length penalty, warm-up and decay of the rate help.",
    source="004:1326-1329",
    experiment="Dropout .2 with few pairs; a model that says a word 1 to 5 times, shorter a little "
    "likelier; rnn after 60 steps on reversals, beam of 5 and greedy; 3 + 3 layers post-norm at 1e-2 "
    "without and with 100 steps of warm-up; plenty of pairs, 1,200 steps at a constant rate and with "
    "a cosine to 0.",
    control="Each without.",
    conditions=[
        at_least(0, changes("dropout", "perplexity"), "dropout"),
        at_most(0, changes("dropout", "words right"), "dropout"),
        at_least(4, "stammer, words with α = 0.6 − stammer, words with α = 0", "length penalty"),
        at_least(0, "words with α = 0.6 − words with α = 0.0", "length penalty"),
        at_least(0, "log p, beam of 5 − log p, greedy", "beam search, in the mean"),
        at_least(0.2, "warm-up, loss without − warm-up, loss with", "warm-up"),
        at_least(0, changes("decay", "perplexity"), "decay"),
        at_least(0, changes("decay", "calibration error"), "decay"),
        *(must_fail(c) for c in between(1, 1, "stammer, words with α = 0")),
    ],
    minutes=0.7,
    changed="1,200 steps for decay: after 400 one seed of two said the contrary. Warm-up at 3 + 3 "
    "layers and 1e-2: with 6 + 6 layers at 3e-3 it made less of a difference than is asked for.",
    remark="Beam search finds likelier targets in the mean, not in each sentence; decay helps by "
    "little, where it is given time.",
)
def tricks(seed: int) -> Figures:
    """Each trick without and with."""
    pairs = toy()
    constant, cosine = (quality(plenty, seed, 1200, schedule=schedule) for schedule in ("constant", "cosine"))
    warm = {
        f"warm-up, loss {how}": loss_after("post", pairs, seed, warmup=steps, rate=1e-2, layers=3)
        for how, steps in (("without", 0), ("with", 100))
    }
    dropout = both("dropout", quality(few_pairs, seed, 600), quality(few_pairs, seed, 600, dropout=0.2))
    return {**dropout, **beams(seed), **warm, **both("decay", constant, cosine)}
