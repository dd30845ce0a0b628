"""Sentence pairs as numbers: pieces by vocabulary, and every pair of pieces that stand in one sentence pair.

A lexical table has one entry for each pair of pieces that occurs. Sentence pairs of equal shape are kept
together, so that each step of the algorithms on them is a few operations on arrays.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.alignment.pieces import cut

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
CELLS = 500_000  # of a group


class Vocabulary:
    """Pieces and their numbers; a piece it does not know has the number after the last."""

    def __init__(self, pieces: Iterable[str] = ()):
        self.numbers = {piece: k for k, piece in enumerate(pieces)}

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, pieces: Iterable[str]) -> list[int]:
        """The numbers of pieces; new ones get the next."""
        return [self.numbers.setdefault(piece, len(self.numbers)) for piece in pieces]

    def of(self, pieces: Iterable[str]) -> list[int]:
        """The numbers of pieces."""
        return [self.numbers.get(piece, len(self.numbers)) for piece in pieces]


@dataclass(frozen=True, eq=False)
class Group:
    """Sentence pairs of one shape."""

    which: list[int]  # b of them
    source: Ints  # (b, n)
    target: Ints  # (b, m)

    def codes(self, base: int) -> Ints:
        """(b, m, n): one number for each pair of pieces, given the number of different target pieces."""
        return self.source[:, None, :] * base + self.target[:, :, None]


def groups(source: Sequence[list[int]], target: Sequence[list[int]]) -> Iterator[Group]:
    """Sentence pairs by shape; those with an empty side are left out."""
    shapes: dict[tuple[int, int], list[int]] = {}
    for k, (ours, theirs) in enumerate(zip(source, target, strict=True)):
        if ours and theirs:
            shapes.setdefault((len(ours), len(theirs)), []).append(k)
    for (n, m), every in sorted(shapes.items()):
        some = max(1, CELLS // (n * m))
        for start in range(0, len(every), some):
            which = every[start : start + some]
            yield Group(which, np.array([source[k] for k in which]), np.array([target[k] for k in which]))


class Bitext:
    """Training pairs: vocabularies, groups, and the pairs of pieces that occur."""

    def __init__(self, pairs: Iterable[tuple[str, str]]):
        self.source, self.target = Vocabulary(), Vocabulary()
        ours: list[list[int]] = []
        theirs: list[list[int]] = []
        for one, other in pairs:
            ours.append(self.source.add(cut(one).pieces))
            theirs.append(self.target.add(cut(other).pieces))
        self.sentences = len(ours)
        self.groups = list(groups(ours, theirs))
        base = len(self.target)
        self.codes: Ints = np.empty(0, np.int64)
        for some in _batched(self.groups):
            self.codes = np.union1d(self.codes, np.concatenate([np.unique(g.codes(base)) for g in some]))
        self.cells: list[Ints] = [
            np.searchsorted(self.codes, g.codes(base)).astype(np.int32) for g in self.groups
        ]  # (b, m, n) of each group: the number of each pair of pieces
        self.given, self.word = np.divmod(self.codes, max(base, 1))  # source and target piece of each pair


def _batched(every: list[Group]) -> Iterator[list[Group]]:
    for start in range(0, len(every), 50):
        yield every[start : start + 50]
