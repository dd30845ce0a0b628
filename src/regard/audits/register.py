"""What a test of an audit returns, a Finding; and AUDITS: every test by name, and its facts."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from regard.audits.measures import Statistic, bootstrap, mean
from regard.core.registry import Table
from regard.tasks.case import Case, NotApplicable

Condition = Literal["necessary", "hard to manipulate", "out of context"]
CONDITIONS: tuple[Condition, ...] = ("necessary", "hard to manipulate", "out of context")
OLD_NAMES = {"yardstick": "baseline"}
WITHOUT = {  # what a case may lack, and why a test that needs it cannot be made
    "aligned": "there are no gold links between source and target",
    "keys": "the keys of its attentions cannot be changed from outside",
    "highlights": "nobody has marked the words that decide",
    "slopes": "the word vectors and the gradients at them were not given",
}


@dataclass(frozen=True)
class Finding:
    """The outcome of one test; one that could not be made has no value, and `why` says the reason."""

    value: float | None
    baseline: float | None  # what the value must be compared with
    interval: tuple[float, float] | None  # of the value: 95 %, by bootstrap over inputs
    inputs: int
    says: str  # what value and baseline are, one line
    why: str | None = None  # not applicable, because …
    details: dict[str, Any] = field(default_factory=dict)  # further figures, for the report

    @classmethod
    def of(
        cls,
        found: Tensor,
        baseline: float | Tensor,
        says: str,
        seed: int,
        details: Mapping[str, Any] | None = None,
        statistic: Statistic = mean,
    ) -> "Finding":
        """The mean of what each text has, (N,), or another statistic of it, with its interval.

        The baseline is a number, or one for each text; tensors among the details become numbers and lists.
        """
        found = found.double()
        value = float(statistic(found.unsqueeze(0)))
        baseline = float(torch.as_tensor(baseline, dtype=torch.float64).mean())
        plain = {k: x.tolist() if isinstance(x, Tensor) else x for k, x in (details or {}).items()}
        return cls(value, baseline, bootstrap(found, statistic, seed=seed), len(found), says, None, plain)

    @classmethod
    def from_dict(cls, what: Mapping[str, Any]) -> "Finding":
        """The finding that `dataclasses.asdict` described; the baseline had another name in older reports."""
        named = {OLD_NAMES.get(name, name): value for name, value in what.items()}
        return cls(**{**named, "interval": what["interval"] and tuple(what["interval"])})


def not_applicable(why: str) -> Finding:
    """The finding of a test that could not be made."""
    return Finding(None, None, None, 0, "", why)


F = TypeVar("F", bound=Callable[..., Finding])


@dataclass(frozen=True)
class Audit:
    """A test and its facts; call it with a case to get a finding."""

    name: str
    function: Callable[..., Finding]
    condition: Condition | None  # which of the three it tests; None: it informs, and is not graded
    trains: bool = False  # needs training data, and takes minutes
    trainings: int = 1  # of the audited model, if it trains
    better: Literal["higher", "lower"] = "higher"  # for faithful attention
    graded: Literal["value", "ratio", "difference"] = "value"  # value, value / baseline, value − baseline
    gate: bool = False  # the score of its condition is at most that of this test
    needs: Literal["aligned", "highlights", "keys", "slopes"] | None = (
        None  # of a case, beside texts and weights
    )

    def strength(self, finding: Finding) -> float | None:
        """The number that is graded; None if there is none."""
        if finding.value is None or self.graded == "value":
            return finding.value
        assert finding.baseline is not None
        if self.graded == "difference":
            return finding.value - finding.baseline
        return finding.value / finding.baseline if finding.baseline > 0 else None

    def __call__(self, case: Case, **options: Any) -> Finding:
        if self.needs is not None and getattr(case, self.needs) is None:
            raise NotApplicable(WITHOUT[self.needs])
        return self.function(case, **options)


AUDITS: Table[Audit] = Table("test", {})


def in_order(names: Iterable[str]) -> list[str]:
    """Names of tests, condition by condition, those that are not graded at the end."""
    rank = {condition: i for i, condition in enumerate((*CONDITIONS, None))}
    return sorted(names, key=lambda name: (rank[AUDITS[name].condition], name))


def register(condition: Condition | None, **facts: Any) -> Callable[[F], F]:
    """Enter a function into AUDITS under its own name: @register("necessary", better="higher")."""

    def enter(function: F) -> F:
        AUDITS.enter(function.__name__, Audit(function.__name__, function, condition, **facts))
        return function

    return enter
