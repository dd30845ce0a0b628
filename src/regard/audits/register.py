"""AUDITS: every test by name, and its facts."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from regard.audits.finding import Finding
from regard.core.registry import Table, first_line

F = TypeVar("F", bound=Callable[..., Finding])
Condition = Literal["necessary", "hard to manipulate", "out of context"]
CONDITIONS: tuple[Condition, ...] = ("necessary", "hard to manipulate", "out of context")


@dataclass(frozen=True)
class Audit:
    """A test and its facts; call it with a case to get a finding."""

    name: str
    function: Callable[..., Finding]
    says: str  # one sentence
    condition: Condition | None  # which of the three it tests; None: it informs, and is not graded
    trains: bool = False  # needs training data, and takes minutes
    trainings: int = 1  # of the audited model, if it trains
    better: Literal["higher", "lower"] = "higher"  # for faithful attention
    graded: Literal["value", "ratio", "difference"] = "value"  # value, value / baseline, value − baseline
    gate: bool = False  # the score of its condition is at most that of this test

    def strength(self, finding: Finding) -> float | None:
        """The number that is graded; None if there is none."""
        if finding.value is None or self.graded == "value":
            return finding.value
        assert finding.yardstick is not None
        if self.graded == "difference":
            return finding.value - finding.yardstick
        return finding.value / finding.yardstick if finding.yardstick > 0 else None

    def __call__(self, case: Any, **options: Any) -> Finding:
        return self.function(case, **options)


AUDITS: Table[Audit] = Table("test", {})


def in_order(names: Iterable[str]) -> list[str]:
    """Names of tests, condition by condition, those that are not graded at the end."""
    rank = {condition: i for i, condition in enumerate((*CONDITIONS, None))}
    return sorted(names, key=lambda name: (rank[AUDITS[name].condition], name))


def register(condition: Condition | None, **facts: Any) -> Callable[[F], F]:
    """Enter a function into AUDITS under its own name: @register("necessary", better="higher")."""

    def enter(function: F) -> F:
        says = first_line(function)
        AUDITS.enter(function.__name__, Audit(function.__name__, function, says, condition, **facts))
        return function

    return enter
