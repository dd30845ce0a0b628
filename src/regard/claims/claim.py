"""A claim of a lecture: the sentence, the experiment, the control, and the thresholds that decide.

An experiment is a function of a seed that returns figures by name. `@claim(number, …)` enters it into CLAIMS:

    @claim("C46", says="…", source="000:217-218", experiment="…", control="…",
           conditions=[at_most(0.55, "without"), at_least(0.98, "with")], fixed="c8690d8", minutes=0.5)
    def order(seed: int) -> Figures: ...

A condition is about one figure, or about the difference or ratio of two: "with − without", "with / without".
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UnknownNameError

Figures = dict[str, float]  # of one seed
Measured = Mapping[str, NDArray[np.float64]]  # of several: (seeds,) each
Rule = Literal["four of five", "mean", "median"]
LECTURES = {
    "000": "Cagliero",
    "001": "Iyyer",
    "002": "Tutek",
    "003": "Asperti",
    "004": "Treviso",
}
OPTIONS = ("map", "model", "data")  # what users may put in the place of ours, where a claim takes it
SEEDS = 5  # that a claim about training needs


@dataclass(frozen=True)
class Condition:
    """A threshold: `what` must be at least or at most `bound`, over seeds by `rule`."""

    what: str
    sign: Literal["≥", "≤"]
    bound: float
    part: str = ""  # of the sentence, where it says several things
    control: bool = False  # what must be so for the experiment to tell anything
    rule: Rule = "four of five"

    def __str__(self) -> str:
        return f"{self.what} {self.sign} {self.bound:g}" + (
            "" if self.rule == "four of five" else f" ({self.rule})"
        )

    def values(self, measured: Measured) -> NDArray[np.float64]:
        """What is compared with the bound: (seeds,)."""
        for sign, combine in (("−", np.subtract), ("/", np.divide)):
            first, found, second = self.what.partition(f" {sign} ")
            if found:
                with np.errstate(divide="ignore", invalid="ignore"):
                    return np.asarray(combine(measured[first], measured[second]), dtype=float)
        return measured[self.what]

    def met(self, measured: Measured) -> bool | None:
        """Whether it is met: in the mean and in four of five seeds. None if only one of the two is true."""
        values = self.values(measured) * (1 if self.sign == "≥" else -1)
        bound = self.bound if self.sign == "≥" else -self.bound
        if self.rule != "four of five":
            return bool(getattr(np, self.rule)(values) >= bound)
        in_mean, in_most = bool(values.mean() >= bound), bool((values >= bound).mean() >= 0.8)
        return in_mean if in_mean == in_most else None

    def names(self) -> list[str]:
        """The figures it is about."""
        sign = next((sign for sign in (" − ", " / ") if sign in self.what), None)
        return self.what.split(sign) if sign else [self.what]


def at_least(bound: float, what: str, part: str = "", **more: Any) -> Condition:
    """The condition what ≥ bound."""
    return Condition(what, "≥", bound, part, **more)


def at_most(bound: float, what: str, part: str = "", **more: Any) -> Condition:
    """The condition what ≤ bound."""
    return Condition(what, "≤", bound, part, **more)


def between(low: float, high: float, what: str, part: str = "", **more: Any) -> list[Condition]:
    """Both conditions low ≤ what ≤ high."""
    return [at_least(low, what, part, **more), at_most(high, what, part, **more)]


def compared(pair: str, figure: str) -> str:
    """One figure of two: compared("rnn − lstm", "loss") is "rnn, loss − lstm, loss"."""
    return re.sub(" [−/] ", lambda sign: f", {figure}{sign[0]}", pair) + f", {figure}"


def must_fail(condition: Condition) -> Condition:
    """The condition as a control: without it the experiment tells nothing."""
    return replace(condition, control=True)


@dataclass(frozen=True, eq=False)
class Claim:
    """A sentence of a lecture, and `measure`, the experiment that it is put to."""

    number: str
    says: str
    source: str  # lecture:lines of its text; …
    group: str  # the section of the page
    measure: Callable[..., Figures]
    experiment: str = ""
    control: str = ""
    conditions: tuple[Condition, ...] = ()
    exact: bool = False  # one run decides: nothing is trained, or a formula does
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    minutes: float = 0.02  # of one run, one thread
    fixed: str = ""  # the commit that fixed settings and thresholds
    only_if: str = ""  # the condition under which it holds, if the experiment shows one
    remark: str = ""  # what to make of the figures
    changed: str = ""  # what was changed after a look

    @property
    def places(self) -> str:
        """Where the lectures say it, with their authors' names."""
        found: dict[str, list[str]] = {}
        for place in filter(None, (part.strip() for part in self.source.split(";"))):
            lecture, _, lines = place.partition(":")
            found.setdefault(LECTURES.get(lecture, lecture), []).append(lines)
        return "; ".join(f"{name}, {_lines(lines)}" for name, lines in found.items())

    @property
    def lectures(self) -> str:
        """The authors of the lectures that say it."""
        return ", ".join(dict.fromkeys(LECTURES[part.strip()[:3]] for part in self.source.split(";")))

    @cached_property
    def options(self) -> tuple[str, ...]:
        """Which of map, model and data it takes."""
        given = inspect.signature(self.measure).parameters
        return tuple(name for name in OPTIONS if name in given)

    @cached_property
    def deciding(self) -> list[str]:
        """The figures that its conditions are about, in their order."""
        return list(dict.fromkeys(name for condition in self.conditions for name in condition.names()))

    @property
    def needed(self) -> int:
        """How many seeds settle it."""
        return 1 if self.exact else min(SEEDS, len(self.seeds))


def _lines(places: list[str]) -> str:
    """Line 90; lines 87-92; lines 107-160, 218."""
    listed = ", ".join(places)
    return f"line {listed}" if listed.isdecimal() else f"lines {listed}"


class Claims(dict[str, Claim]):
    """Claims by number; a number that is not there is an error that says which are."""

    def __missing__(self, number: str) -> Claim:
        if number.upper() in self:
            return self[number.upper()]
        raise UnknownNameError(f'no claim "{number}": they are C1 to C99 and S1 to S6. See regard claims.')


CLAIMS = Claims()


def claim(
    number: str, *, conditions: Sequence[Condition] = (), **facts: Any
) -> Callable[[Callable[..., Figures]], Callable[..., Figures]]:
    """Enter the decorated experiment into CLAIMS."""

    def enter(measure: Callable[..., Figures]) -> Callable[..., Figures]:
        CLAIMS[number] = Claim(number, measure=measure, conditions=tuple(conditions), **facts)
        return measure

    return enter
