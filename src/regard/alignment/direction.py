"""What the model knows in one direction: which word for which, and how far from one word to the next.

    t(f | e) = (c(e, f) + κ · t(form f | form e) · p(f | form f)) / (c(e) + κ)

A rare word is helped by what is known of words that begin like it, taken for forms of the same word. Jumps
of REACH words or more share one count, that of a jump to one of the words there: where s words are that far,
each of them counts 1/s. Without that, each had the count of all, and in sentences longer than REACH, the more
so the longer they were, far jumps crowded out near ones. All jumps have at least a little probability.
"""

from dataclasses import dataclass, field

import numpy as np

from regard.alignment.bitext import Floats, Ints

REACH = 10


@dataclass(eq=False)
class Direction:
    """Tables over pairs (given, word), sizes[0] and sizes[1] different ones of them."""

    given: Ints  # (pairs,)
    word: Ints  # (pairs,)
    sizes: tuple[int, int]
    table: Floats  # (pairs,): t(word | given)
    empty: Floats = field(init=False)  # (sizes[1],): t(word | the empty word)
    jumps: Floats = field(init=False)  # (2 · REACH + 1,): counts from −REACH to REACH, to one word each
    first: Floats = field(init=False)  # (REACH + 1,): of the first word looked at

    def __post_init__(self) -> None:
        self.empty = np.full(self.sizes[1], 1 / max(self.sizes[1], 1))
        self.jumps, self.first = np.ones(2 * REACH + 1), np.ones(REACH + 1)

    def transitions(self, n: int, even: float) -> Floats:
        """p(i | i'): (n + 1, n), the first row from before the first word; `even` is spread over all."""
        jumps = np.concatenate([self.first[_places(n)][None], self.jumps[_distances(n)]])
        near: Floats = (1 - even) * jumps / jumps.sum(-1, keepdims=True) + even / n
        return near

    def learn_jumps(self, counts: dict[int, Floats]) -> None:
        """Take expected counts (n + 1, n) of jumps in sentences of n words, by n."""
        jumps, first = np.full(2 * REACH + 1, 1e-3), np.full(REACH + 1, 1e-3)
        for n, count in counts.items():
            jumps += np.bincount(_distances(n).ravel(), (count[1:] / _sharing(n)).ravel(), 2 * REACH + 1)
            first += np.bincount(_places(n), count[0] / np.bincount(_places(n))[_places(n)], REACH + 1)
        self.jumps, self.first = jumps, first

    def learn_words(self, counts: Floats, empty: Floats, forms: "Forms", kappa: float) -> None:
        """Take expected counts of pairs (pairs,) and of words nothing stands for (sizes[1],)."""
        total = _summed(self.given, counts, self.sizes[0])
        prior = forms.prior(counts, total, _summed(self.word, counts, self.sizes[1]))
        self.table = (counts + kappa * prior) / np.maximum(total + kappa, 1e-300)[self.given]
        self.empty = (empty + 0.01) / (empty.sum() + 0.01 * len(empty))


@dataclass(frozen=True, eq=False)
class Forms:
    """Words that begin alike, as one: their number for each given, each word and each pair of a direction."""

    given: Ints  # (sizes[0],)
    word: Ints  # (sizes[1],)
    pair: Ints  # (pairs,)
    direction: Direction

    @classmethod
    def of(cls, direction: Direction, given: Ints, word: Ints) -> "Forms":
        """The forms of a direction, given the number of the form of each given and of each word."""
        codes = given[direction.given] * (int(word.max(initial=0)) + 1) + word[direction.word]
        return cls(given, word, np.unique(codes, return_inverse=True)[1], direction)

    def prior(self, pairs: Floats, given: Floats, word: Floats) -> Floats:
        """t(form of the word | form of the given) · p(word | its form), for each pair."""
        here = self.direction
        together = np.bincount(self.pair, pairs)[self.pair]
        of_given = np.bincount(self.given, given)[self.given[here.given]]
        of_word = np.bincount(self.word, word)[self.word[here.word]]
        prior: Floats = (
            together / np.maximum(of_given, 1e-300) * word[here.word] / np.maximum(of_word, 1e-300)
        )
        return prior


def _summed(places: Ints, counts: Floats, size: int) -> Floats:
    """(size,): the sum of the counts at each place."""
    return np.bincount(places, counts, size).astype(np.float64, copy=False)


def _distances(n: int) -> Ints:
    """From each word to each: (n, n), from 0 for −REACH or less."""
    places = np.arange(n)
    clipped: Ints = np.clip(places[None] - places[:, None], -REACH, REACH) + REACH
    return clipped


def _sharing(n: int) -> Ints:
    """(n, n): how many words, seen from each word, share the count of each."""
    places = np.arange(n)
    before, after = np.maximum(places - REACH + 1, 1)[:, None], np.maximum(n - places - REACH, 1)[:, None]
    away = places[None] - places[:, None]
    shared: Ints = np.where(away <= -REACH, before, np.where(away >= REACH, after, 1))
    return shared


def _places(n: int) -> Ints:
    """The count that each first word looked at belongs to."""
    return np.minimum(np.arange(n), REACH)
