"""Training an aligner: expectation–maximisation of both directions at once, made to agree.

    E   p(a | e, f) and p(b | e, f) exactly, by forward–backward; a link counts p(a_j = i) · p(b_i = j)
    M   tables from the counts of links; jumps from the counts of each direction itself

The product makes each direction believe what the other can see, which is what keeps rare words from
collecting links that nobody else claims. The first rounds are IBM model 1, few of them: it soon takes words
that happen to share a sentence for translations, and the more, the longer the sentences are. As long as
nothing is known the product is about 1/mn and a long sentence would hardly count, so in these rounds it is
scaled to what each word claims. To begin with, words that begin alike (names, numbers, cognates) are likelier
to stand for each other.

All pairs are kept in memory: 4 bytes for each word of the target and each word of its source.

Liang, Taskar & Klein (2006), "Alignment by Agreement", NAACL; Dempster, Laird & Rubin (1977).
"""

from collections.abc import Callable, Iterable

import numpy as np

from regard.alignment.aligner import Aligner, AlignerSettings
from regard.alignment.bitext import Bitext, Floats, Ints, Vocabulary
from regard.alignment.direction import Direction, Forms
from regard.alignment.hidden_markov import hidden_markov, independent
from regard.alignment.pieces import beginning
from regard.data.text import DataError

BLOCK = 4_000_000  # cells counted at once
Say = Callable[[str], None]


def train(
    pairs: Iterable[tuple[str, str]], settings: AlignerSettings | None = None, *, say: Say = lambda _: None
) -> Aligner:
    """Learn an aligner from sentence pairs; `say` hears of each round."""
    settings = settings or AlignerSettings()
    bitext = Bitext(pairs)
    if not bitext.groups:
        raise DataError("an aligner cannot be trained on no pair of sentences with words on both sides.")
    known: dict[str, int] = {}
    ours, theirs = _forms(bitext.source, known), _forms(bitext.target, known)
    begin = 1 + settings.likeness * (ours[bitext.given] == theirs[bitext.word])
    sizes = len(bitext.source), len(bitext.target)
    forward = Direction(bitext.given, bitext.word, sizes, begin / sizes[1])
    reverse = Direction(bitext.word, bitext.given, sizes[::-1], begin / sizes[0])
    forms = Forms.of(forward, ours, theirs), Forms.of(reverse, theirs, ours)
    rounds = settings.first_rounds + settings.rounds
    for k in range(rounds):
        likelihood = _round(bitext, (forward, reverse), forms, settings, k >= settings.first_rounds)
        say(f"round {k + 1} of {rounds}: log-likelihood {likelihood[0]:,.0f} and {likelihood[1]:,.0f}")
    return Aligner(settings, bitext.source, bitext.target, bitext.codes, forward, reverse)


def _round(
    bitext: Bitext,
    directions: tuple[Direction, Direction],
    forms: tuple[Forms, Forms],
    settings: AlignerSettings,
    jumping: bool,
) -> tuple[float, float]:
    """One round over all pairs; the log-likelihood of each direction before it."""
    counts = Counts(len(bitext.codes))
    empty = [np.zeros(d.sizes[1]) for d in directions]
    jumps: list[dict[int, Floats]] = [{}, {}]
    likelihood = [0.0, 0.0]
    for group, cells in zip(bitext.groups, bitext.cells, strict=True):
        found = []
        for side, (words, these) in enumerate(
            ((group.target, cells), (group.source, cells.transpose(0, 2, 1)))
        ):
            direction, n = directions[side], these.shape[2]
            lexical, none = direction.table[these], direction.empty[words]
            if jumping:
                transitions = direction.transitions(n, settings.even)
                marginals = hidden_markov(lexical, none, transitions, settings.empty)
                jumps[side][n] = jumps[side].get(n, 0.0) + marginals.jumps
            else:
                marginals = independent(lexical, none, settings.empty)
            likelihood[side] += marginals.log_likelihood
            found.append(marginals.links)
        both = found[0], found[1].transpose(0, 2, 1)
        links = both[0] * both[1] if jumping else scaled(*both)  # (b, m, n)
        counts.add(cells, links)
        for side, (words, axis) in enumerate(((group.target, 2), (group.source, 1))):
            unclaimed = np.maximum(1 - links.sum(axis), 0)
            empty[side] += np.bincount(words.ravel(), unclaimed.ravel(), len(empty[side]))
    total = counts.total()
    for side, direction in enumerate(directions):
        direction.learn_words(total, empty[side], forms[side], settings.forms)
        if jumping:
            direction.learn_jumps(jumps[side])
    return likelihood[0], likelihood[1]


def scaled(forward: Floats, reverse: Floats) -> Floats:
    """The product (b, m, n), its rows scaled to the sums of forward's, its columns to those of reverse's.

    The geometric mean of both: a word's links count about as much as it claims, however many words there are.
    """
    both = forward * reverse
    rows, columns = (
        one.sum(axis, keepdims=True) / np.maximum(both.sum(axis, keepdims=True), 1e-300)
        for one, axis in ((forward, 2), (reverse, 1))
    )
    found: Floats = both * np.sqrt(rows * columns)
    return found


class Counts:
    """Sums of weights by cell, added up in large blocks."""

    def __init__(self, size: int):
        self.sum = np.zeros(size)
        self.waiting: list[tuple[Ints, Floats]] = []
        self.cells = 0

    def add(self, cells: Ints, weights: Floats) -> None:
        """Add weights to the sums of their cells, of the same shape."""
        self.waiting.append((cells.ravel(), weights.ravel()))
        self.cells += cells.size
        if self.cells > BLOCK:
            self.total()

    def total(self) -> Floats:
        """The sums so far."""
        if self.waiting:
            cells, weights = (np.concatenate(parts) for parts in zip(*self.waiting, strict=True))
            self.sum += np.bincount(cells, weights, len(self.sum))
            self.waiting, self.cells = [], 0
        return self.sum


def _forms(vocabulary: Vocabulary, known: dict[str, int]) -> Ints:
    """The number of the form of each piece; pieces of both languages that begin alike have the same."""
    return np.array(
        [known.setdefault(beginning(piece), len(known)) for piece in vocabulary.numbers], np.int64
    )
