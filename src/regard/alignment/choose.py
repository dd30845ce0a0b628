"""Which head, which shift, which threshold: chosen without links, by the agreement of two directions.

    agreement = 2 |A ∩ B| / (|A| + |B|)

of the links A of one direction with the links B of the other. Two directions that know nothing of each other
agree where both are right; a head that looks elsewhere agrees with nothing. But if one is a word late, the
other can be made a word early, and they agree again. So an aligner trained on the same sentences, which is
never late, is asked as a third. With gold links of some sentences, what has the least alignment error rate on
them is chosen instead.

Cohn et al. (2016), arXiv:1601.01085, train by such agreement; here it only chooses.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from regard.alignment.bitext import Floats
from regard.alignment.error_rate import score
from regard.alignment.extraction import METHODS, argmax
from regard.alignment.links import Link, Links
from regard.alignment.pair_weights import PairWeights
from regard.alignment.shift import NO_SHIFT, SHIFTS, Shift
from regard.alignment.symmetrise import SYMMETRISATIONS
from regard.core.errors import SettingsError

SAMPLE = 200  # sentences by which is chosen
THRESHOLDS = {
    "argmax": (0.0,),
    "threshold": (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5),
    "mutual": (0.0,),
    "matching": (0.0, 0.1, 0.2),
}


@dataclass(frozen=True)
class Head:
    """A layer of source–target attention and one of its heads, both from 0; without a head, their mean."""

    layer: int
    head: int | None = None

    def __str__(self) -> str:
        return f"layer {self.layer + 1}" + ("" if self.head is None else f", head {self.head + 1}")


@dataclass(frozen=True)
class HeadView:
    """One head, its shift corrected."""

    head: Head
    shift: Shift = NO_SHIFT

    def correct(self, weights: dict[Head, Floats]) -> Floats:
        """Weights (m, n) of this head, in their place, from those of all heads (m + 1, n)."""
        return self.shift.correct(weights[self.head])

    def __str__(self) -> str:
        return f"{self.head}, {self.shift}"


@dataclass(frozen=True)
class Rule:
    """How weights become links."""

    method: str = "threshold"
    threshold: float = 0.5
    symmetrise: str = "grow-diag-final-and"

    def __post_init__(self) -> None:
        for name, known in (("method", METHODS), ("symmetrise", SYMMETRISATIONS)):
            if getattr(self, name) not in known:
                raise SettingsError(f"{name} must be one of {', '.join(known)}; got {getattr(self, name)!r}.")
        if not 0 <= self.threshold < 1:
            raise SettingsError(f"threshold must be from 0 to less than 1; got {self.threshold}.")

    def each(self, looked: Sequence[PairWeights]) -> list[Links]:
        """The links of each pair."""
        return [self.links(one) for one in looked]

    def links(self, looked: PairWeights) -> Links:
        """The links of one pair."""
        forward, reverse = self.both(looked)
        return Links.of(forward if reverse is None else SYMMETRISATIONS[self.symmetrise](forward, reverse))

    def both(self, looked: PairWeights) -> tuple[set[Link], set[Link] | None]:
        """The links of each direction, all of them (source, target)."""
        find = METHODS[self.method]
        forward = find(looked.forward, self.threshold)
        if looked.reverse is None:
            return forward, None
        return forward, {(i, j) for j, i in find(looked.reverse, self.threshold)}

    def __str__(self) -> str:
        return f"{self.method} {self.threshold:g}" if self.threshold else self.method


Weights = Sequence[dict[Head, Floats]]  # of each sentence, (m + 1, n) by head


def views(weights: Weights) -> list[HeadView]:
    """All heads with all shifts; those without a shift first."""
    return [HeadView(head, shift) for shift in SHIFTS for head in (weights[0] if weights else {})]


def choose_view(weights: Weights, reference: Sequence[Links]) -> HeadView:
    """The head, and its shift, whose largest weights agree most with reference links."""
    return min(views(weights), key=lambda view: score(_largest(weights, view), reference).aer)


def choose_views(forward: Weights, reverse: Weights, third: Sequence[Links]) -> tuple[HeadView, HeadView]:
    """The head and shift of each direction by which all three agree most: the two, and third links."""
    known = _together(third)
    ours = {view: _together(_largest(forward, view)) for view in views(forward)}
    theirs = {view: _together([one.reversed() for one in _largest(reverse, view)]) for view in views(reverse)}
    with_third = {id(x): _agreement(x, known) for side in (ours, theirs) for x in side.values()}

    def agreed(pair: tuple[HeadView, HeadView]) -> float:
        one, other = ours[pair[0]], theirs[pair[1]]
        return _agreement(one, other) + with_third[id(one)] + with_third[id(other)]

    return max(product(ours, theirs), key=agreed)


def choose_rule(
    looked: Sequence[PairWeights],
    *,
    gold: Sequence[Links] | None = None,
    third: Sequence[Links] | None = None,
    fixed: dict[str, Any] | None = None,
) -> Rule:
    """The rule of the least error rate on gold links, or else by which directions and links agree most.

    That is the agreement of the two directions, if there are two, and of what comes of them with third links.
    `fixed` is not chosen.
    """
    two = looked[0].reverse is not None

    def error(rule: Rule) -> float:
        found = rule.each(looked)
        if gold is not None:
            return score(found, gold).aer
        parts = [rule.both(one) for one in looked]
        between = [Links.of(one) for one, _ in parts], [Links.of(other or ()) for _, other in parts]
        return (score(*between).aer if two else 0) + (score(found, third).aer if third is not None else 0)

    errors = {rule: round(error(rule), 12) for rule in rules(fixed or {}, symmetrise=two)}
    return min(errors, key=lambda rule: errors[rule])  # the first of the best


def rules(fixed: dict[str, Any], *, symmetrise: bool) -> Iterable[Rule]:
    """All rules; each symmetrisation only if asked for."""
    for method, thresholds in THRESHOLDS.items():
        for threshold in thresholds:
            for name in SYMMETRISATIONS if symmetrise else [Rule.symmetrise]:
                rule = {"method": method, "threshold": threshold, "symmetrise": name}
                if fixed.get("method", method) == method:
                    yield Rule(**{**rule, **fixed})


def _together(links: Sequence[Links]) -> frozenset[int]:
    """The links of all sentences as one set; numbers, since thousands of such sets are compared."""
    return frozenset((k << 40) + (i << 20) + j for k, one in enumerate(links) for i, j in one.sure)


def _agreement(one: frozenset[int], other: frozenset[int]) -> float:
    return 2 * len(one & other) / (len(one) + len(other) or 1)


def _largest(weights: Weights, view: HeadView) -> list[Links]:
    """By argmax."""
    return [Links.of(argmax(view.correct(one))) for one in weights]
