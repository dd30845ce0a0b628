"""The aligner: a statistical model of which source word each target word translates, in both directions.

Its weights are the marginals of two hidden Markov models, one from target to source, one from source to
target. `train` (expectation.py) learns it from bitext.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.alignment.bitext import Floats, Group, Ints, Vocabulary, groups
from regard.alignment.direction import Direction
from regard.alignment.hidden_markov import hidden_markov
from regard.alignment.pair_weights import PairWeights
from regard.alignment.pieces import beginning, cut
from regard.core.errors import SettingsError

NEVER = 1e-9  # t(f | e) of known words that were never seen together


@dataclass(frozen=True)
class AlignerSettings:
    """How an aligner is trained."""

    rounds: int = 8  # of expectation–maximisation, with jumps
    first_rounds: int = 2  # without jumps, before them
    empty: float = 0.05  # p₀: the share of words that nothing stands for
    even: float = 0.1  # the share of jumps to anywhere
    forms: float = 2.0  # κ: how many sightings the forms of a word are worth
    likeness: float = 10.0  # how much likelier, to begin with, words are that begin alike

    def __post_init__(self) -> None:
        for name in ("rounds", "first_rounds", "forms", "likeness"):
            if not getattr(self, name) >= 0:
                raise SettingsError(f"{name} must be at least 0; got {getattr(self, name)}.")
        for name in ("empty", "even"):
            if not 0 < getattr(self, name) < 1:
                raise SettingsError(f"{name} must be between 0 and 1; got {getattr(self, name)}.")


@dataclass(frozen=True, eq=False)
class Aligner:
    """A trained aligner."""

    settings: AlignerSettings
    source: Vocabulary
    target: Vocabulary
    codes: Ints  # (pairs,), sorted: number of the source piece × target pieces + number of the target piece
    forward: Direction  # t(target | source)
    reverse: Direction  # t(source | target)

    def weights(self, pairs: Sequence[tuple[str, str]]) -> list[PairWeights]:
        """The weights between the words of each pair, in both directions."""
        found = [PairWeights.zeros(len(one.split()), len(other.split())) for one, other in pairs]
        ours, theirs = ([cut(pair[side]) for pair in pairs] for side in (0, 1))
        for k, forward, reverse in self._marginals([o.pieces for o in ours], [t.pieces for t in theirs]):
            m, n = found[k].forward.shape
            merged = np.zeros((m, n)), np.zeros((n, m))
            for words, links, down, across in (
                (merged[0], forward, theirs[k], ours[k]),
                (merged[1], reverse, ours[k], theirs[k]),
            ):  # the most of what the pieces say that speak for their words
                rows, columns = np.flatnonzero(down.speaks), np.flatnonzero(across.speaks)
                where = np.array(down.words)[rows][:, None], np.array(across.words)[columns][None]
                np.maximum.at(words, where, links[np.ix_(rows, columns)])
            found[k] = PairWeights(*merged)
        return found

    def _marginals(
        self, source: list[list[str]], target: list[list[str]]
    ) -> Iterator[tuple[int, Floats, Floats]]:
        """For each pair without an empty side its number, (m, n) and (n, m), of pieces."""
        numbers = [self.source.of(one) for one in source], [self.target.of(one) for one in target]
        even, p0 = self.settings.even, self.settings.empty
        for group in groups(*numbers):
            same = np.array([_alike(source[k], target[k]) for k in group.which])  # (b, m, n)
            one, other = self._lexical(group, same)
            n, m = group.source.shape[1], group.target.shape[1]
            forward = hidden_markov(
                one, _empty(self.forward, group.target), self.forward.transitions(n, even), p0
            )
            reverse = hidden_markov(
                other, _empty(self.reverse, group.source), self.reverse.transitions(m, even), p0
            )
            yield from zip(group.which, forward.links, reverse.links, strict=True)

    def _lexical(self, group: Group, same: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """t(target | source) (b, m, n) and t(source | target) (b, n, m).

        An unknown word stands for any other evenly; known ones that were never seen together, hardly ever.
        """
        codes = group.codes(len(self.target))
        at = np.minimum(np.searchsorted(self.codes, codes), max(len(self.codes) - 1, 0))
        unknown = (group.source == len(self.source))[:, None, :] | (group.target == len(self.target))[
            ..., None
        ]
        seen = (self.codes[at] == codes) & ~unknown if len(self.codes) else np.zeros_like(unknown)
        more = 1 + self.settings.likeness * same

        def table(direction: Direction) -> Floats:
            other = np.where(unknown, 1 / max(direction.sizes[1], 1), NEVER) * more
            found: Floats = np.where(seen, direction.table[at], other) if len(self.codes) else other
            return found

        return table(self.forward), table(self.reverse).transpose(0, 2, 1)


def _empty(direction: Direction, words: Ints) -> Floats:
    """t(word | the empty word) (b, m); an unknown one is as likely as any."""
    found: Floats = np.append(direction.empty, 1 / max(direction.sizes[1], 1))[words]
    return found


def _alike(source: list[str], target: list[str]) -> NDArray[np.bool_]:
    ours, theirs = (np.array([beginning(piece) for piece in side]) for side in (source, target))
    same: NDArray[np.bool_] = ours[None, :] == theirs[:, None]
    return same
