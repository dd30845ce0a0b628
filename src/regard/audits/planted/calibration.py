"""Calibration: how the thresholds of the verdict are fitted, and how well the grade then separates models.

    failed = median of a test's strength over the unfaithful models        passed = over the faithful ones

A test whose two medians are in the wrong order, or nearer to each other than NEAR, does not separate the two
and is left out of the grade. Thresholds are fitted on other seeds than those that are reported.
Leave-one-kind-out: every kind is also graded with thresholds that were fitted without it.

    AUC = P(grade of a faithful model > grade of an unfaithful one) + ½ P(they are equal)

A model without a grade, because too little could be tested, counts as ½.

The self-test: does the audit, as it is installed here, still separate planted models? One of each kind (or
more, by `seeds`) is trained, audited with the tests that do not train, and graded: a minute or two.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from statistics import median
from typing import Any

from regard.audits.examine import tried
from regard.audits.planted.kinds import KINDS, plant
from regard.audits.register import AUDITS, Finding
from regard.audits.thresholds import GIVEN, RAMPS, Ramp
from regard.audits.verdict import judge

NEAR = 0.05  # medians of a test must be further apart
MIDDLE = 0.5  # the grade of a model that has none; a grade on the wrong side of it is an error
ENOUGH = 0.95  # AUC

Listen = Callable[["PlantedResult"], None]


@dataclass(frozen=True)
class PlantedResult:
    """A planted model, audited."""

    kind: str
    seed: int
    faithful: bool | None
    accuracy: float
    tries: int
    facts: dict[str, float]
    findings: dict[str, Finding]

    def grade(self, ramps: Mapping[str, Ramp] = RAMPS) -> float | None:
        """The grade that these ramps give it."""
        return judge(self.findings, ramps={**GIVEN, **ramps}).grade

    def as_dict(self) -> dict[str, Any]:
        """For JSON: of each test, value, baseline, interval and inputs."""
        told = asdict(self)
        tests = told.pop("findings")
        for test in tests.values():
            del test["says"], test["details"]
        return {**told, "tests": tests}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> "PlantedResult":
        """The result that `as_dict` described."""
        parts = dict(told)
        tests = parts.pop("tests").items()
        return cls(**parts, findings={name: Finding.from_dict({**one, "says": ""}) for name, one in tests})


def run(
    seeds: Iterable[int],
    quick: bool = True,
    listen: Listen | None = None,
    known: Iterable[PlantedResult] = (),
) -> list[PlantedResult]:
    """Train a model of each kind from each seed and audit it, except those known; these come first."""
    tests = [name for name, audit in AUDITS.items() if not (audit.trains and quick)]
    results = list(known)
    made = {(result.seed, result.kind) for result in results}
    for seed, kind in product(seeds, KINDS):
        if (seed, kind) in made:
            continue
        planted = plant(kind, seed)
        case = planted.case(trains=not quick)
        findings = {name: tried(name, case, quick, seed) for name in tests}
        figures = planted.faithful, planted.accuracy, planted.tries, planted.model.facts
        results.append(PlantedResult(kind, seed, *figures, findings))
        if listen is not None:
            listen(results[-1])
    return results


def fix(results: Sequence[PlantedResult]) -> dict[str, Ramp]:
    """The ramps that these results give, for every test that separates the two groups."""
    ramps: dict[str, Ramp] = {}
    for name, audit in AUDITS.items():
        if audit.condition is None or name in GIVEN:
            continue
        made = [result for result in results if name in result.findings]
        bad, good = by_truth(made, [audit.strength(result.findings[name]) for result in made])
        if not good or not bad:
            continue
        failed, passed = median(bad), median(good)
        if (passed - failed) * (1 if audit.better == "higher" else -1) > NEAR:
            ramps[name] = (round(failed, 2), round(passed, 2))
    return ramps


def by_truth(
    results: Sequence[PlantedResult], numbers: Iterable[float | None]
) -> tuple[list[float], list[float]]:
    """The numbers of unfaithful models, and those of faithful ones, without None."""
    pairs = [(result.faithful, x) for result, x in zip(results, numbers, strict=True) if x is not None]
    return [x for faithful, x in pairs if faithful is False], [x for faithful, x in pairs if faithful]


def separation(results: Sequence[PlantedResult], grades: Iterable[float | None] | None = None) -> float:
    """The AUC of faithful against unfaithful models, by their own grades or by these."""
    grades = [result.grade() for result in results] if grades is None else grades
    low, high = by_truth(results, map(graded, grades))
    return auc(high, low)


def auc(high: Sequence[float], low: Sequence[float]) -> float:
    """The share of pairs in which one of `high` exceeds one of `low`; equal ones count half."""
    if not high or not low:
        raise ValueError("an AUC needs models of both groups, faithful and unfaithful.")
    return sum((a > b) + 0.5 * (a == b) for a in high for b in low) / (len(high) * len(low))


def graded(grade: float | None) -> float:
    """The grade, ½ if there is none."""
    return MIDDLE if grade is None else grade


def left_out(calibrated: Sequence[PlantedResult], reported: Sequence[PlantedResult]) -> list[float | None]:
    """The grade of each reported model by ramps that were fitted without its kind."""
    ramps = {
        kind: fix([result for result in calibrated if result.kind != kind])
        for kind in {result.kind for result in reported}
    }
    return [result.grade(ramps[result.kind]) for result in reported]


def misjudged(results: Sequence[PlantedResult], grades: Sequence[float | None]) -> list[PlantedResult]:
    """Those of known truth whose grade is on the wrong side of ½, or is None."""
    return [
        result
        for result, grade in zip(results, map(graded, grades), strict=True)
        if result.faithful is not None and (grade <= MIDDLE if result.faithful else grade >= MIDDLE)
    ]


@dataclass(frozen=True)
class SelfTest:
    """The results, and the AUC of faithful against unfaithful models."""

    results: list[PlantedResult]
    auc: float

    @property
    def passed(self) -> bool:
        """Whether faithful and unfaithful models were separated well enough."""
        return self.auc >= ENOUGH

    @property
    def misjudged(self) -> list[PlantedResult]:
        """Models whose grade is on the wrong side of ½, or that have none."""
        return misjudged(self.results, [result.grade() for result in self.results])


def self_test(seeds: Sequence[int] = (0,), listen: Listen | None = None) -> SelfTest:
    """Audit a model of each kind from each seed; `listen` gets every result as it comes."""
    results = run(seeds, listen=listen)
    return SelfTest(results, separation(results))
