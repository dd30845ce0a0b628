"""The self-test: does the audit, as it is installed here, still separate planted models?

One model of each kind (or more, by `seeds`) is trained, audited with the tests that do not train, and graded
by the thresholds of `regard.audits.thresholds`. It takes a minute or two.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.audits.calibration import Listen, Result, graded, run, separation
from regard.audits.planted.kinds import KINDS

ENOUGH = 0.95  # AUC
MIDDLE = 0.5  # a grade on the wrong side of it is an error


@dataclass(frozen=True)
class SelfTest:
    """The results, and the AUC of faithful against unfaithful models."""

    results: list[Result]
    auc: float

    @property
    def passed(self) -> bool:
        """Whether faithful and unfaithful models were separated well enough."""
        return self.auc >= ENOUGH

    @property
    def misjudged(self) -> list[Result]:
        """Models whose grade is on the wrong side of ½, or that have none."""
        return misjudged(self.results, [result.grade() for result in self.results])


def misjudged(results: Sequence[Result], grades: Sequence[float | None]) -> list[Result]:
    """Those of known truth whose grade is on the wrong side of ½, or is None."""
    return [
        result
        for result, grade in zip(results, grades, strict=True)
        if result.faithful is not None
        and (graded(grade) <= MIDDLE if result.faithful else graded(grade) >= MIDDLE)
    ]


def self_test(seeds: Sequence[int] = (0,), listen: Listen | None = None) -> SelfTest:
    """Audit a model of each kind from each seed; `listen` gets every result as it comes."""
    results = run(KINDS, seeds, quick=True, listen=listen)
    return SelfTest(results, separation(results))
