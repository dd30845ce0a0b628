"""Calibration: how the thresholds of the verdict are fitted, and how well the grade then separates models.

    failed = median of a test's strength over the unfaithful models        passed = over the faithful ones

A test whose two medians are in the wrong order, or nearer to each other than NEAR, does not separate the two
and is left out of the grade. Thresholds are fitted on other seeds than those that are reported.
Leave-one-kind-out: every kind is also graded with thresholds that were fitted without it.

    AUC = P(grade of a faithful model > grade of an unfaithful one) + ½ P(they are equal)

A model without a grade, because too little could be tested, counts as ½.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from regard.audits.examine import tried
from regard.audits.finding import Finding
from regard.audits.register import AUDITS
from regard.audits.thresholds import GIVEN, RAMPS, Ramp
from regard.audits.verdict import judge

if TYPE_CHECKING:  # the package of planted models imports this file
    from regard.audits.planted.kinds import Planted

NEAR = 0.05  # medians of a test must be further apart
UNKNOWN = 0.5  # the grade of a model that has none

Listen = Callable[["Result"], None]


@dataclass(frozen=True)
class Result:
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
        """For JSON: of each test, value, baseline (as "yardstick"), interval and inputs."""
        tests = {
            name: {key: getattr(finding, key) for key in ("value", "yardstick", "interval", "inputs", "why")}
            for name, finding in self.findings.items()
        }
        return {**{key: getattr(self, key) for key in KEYS}, "tests": tests}


KEYS = ("kind", "seed", "faithful", "accuracy", "tries", "facts")


def result_of(given: Mapping[str, Any]) -> Result:
    """The result that `as_dict` was made of."""
    findings = {
        name: Finding(
            test["value"],
            test["yardstick"],
            test["interval"] and tuple(test["interval"]),
            test["inputs"],
            "",
            test["why"],
        )
        for name, test in given["tests"].items()
    }
    return Result(**{key: given[key] for key in KEYS}, findings=findings)


def run(
    kinds: Iterable[str], seeds: Iterable[int], quick: bool = True, listen: Listen | None = None
) -> list[Result]:
    """Train a model of each kind from each seed and audit it."""
    from regard.audits.planted.kinds import plant

    results, kinds = [], list(kinds)
    for seed in seeds:
        for kind in kinds:
            results.append(audited(plant(kind, seed), quick))
            if listen is not None:
                listen(results[-1])
    return results


def audited(planted: "Planted", quick: bool = True) -> Result:
    """A planted model with the findings of every test."""
    case = planted.case(trains=not quick)
    findings = {
        name: tried(name, case, quick, planted.seed)
        for name, audit in AUDITS.items()
        if not (audit.trains and quick)
    }
    return Result(
        planted.kind,
        planted.seed,
        planted.faithful,
        planted.accuracy,
        planted.tries,
        planted.made.facts,
        findings,
    )


def fix(results: Sequence[Result]) -> dict[str, Ramp]:
    """The ramps that these results give, for every test that separates the two groups."""
    ramps: dict[str, Ramp] = {}
    for name, audit in AUDITS.items():
        if audit.condition is None or name in GIVEN:
            continue
        strengths: dict[bool, list[float]] = {True: [], False: []}
        for result in results:
            finding = result.findings.get(name)
            strength = None if finding is None else audit.strength(finding)
            if strength is not None and result.faithful is not None:
                strengths[result.faithful].append(strength)
        if not all(strengths.values()):
            continue
        failed, passed = median(strengths[False]), median(strengths[True])
        if (passed - failed) * (1 if audit.better == "higher" else -1) > NEAR:
            ramps[name] = (round(failed, 2), round(passed, 2))
    return ramps


def separation(results: Sequence[Result], ramps: Mapping[str, Ramp] = RAMPS) -> float:
    """The AUC of the grades of faithful against unfaithful models."""
    grades: dict[bool, list[float]] = {True: [], False: []}
    for result in results:
        if result.faithful is not None:
            grades[result.faithful].append(graded(result.grade(ramps)))
    return auc(grades[True], grades[False])


def auc(high: Sequence[float], low: Sequence[float]) -> float:
    """The share of pairs in which one of `high` exceeds one of `low`; equal ones count half."""
    if not high or not low:
        raise ValueError("an AUC needs models of both groups, faithful and unfaithful.")
    return sum((a > b) + 0.5 * (a == b) for a in high for b in low) / (len(high) * len(low))


def graded(grade: float | None) -> float:
    """The grade, UNKNOWN if there is none."""
    return UNKNOWN if grade is None else grade


def without(kind: str, results: Sequence[Result]) -> dict[str, Ramp]:
    """The ramps fitted on all kinds but one."""
    return fix([result for result in results if result.kind != kind])


def left_out(calibrated: Sequence[Result], reported: Sequence[Result]) -> list[float | None]:
    """The grade of each reported model by ramps that were fitted without its kind."""
    ramps = {kind: without(kind, calibrated) for kind in {result.kind for result in reported}}
    return [result.grade(ramps[result.kind]) for result in reported]
