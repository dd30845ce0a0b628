"""A claim in words: its figures with intervals, its seeds, its verdict, as lines, as a row, as plain data."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.claims.claim import Claim
from regard.claims.stored_figures import Record, Run
from regard.claims.verdict_of_claim import measured


def number(value: float) -> str:
    """Three decimals; few digits of what is small or large."""
    if value != value:
        return "–"
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) >= 0.001 else f"{value:.1g}"


def interval(values: Sequence[float], draws: int = 10_000) -> str:
    """The mean and, of several seeds that differ, a bootstrap interval of 95 %."""
    array = np.asarray(values, dtype=float)
    mean = number(float(array.mean()))
    if len(array) < 5 or np.ptp(array) < 1e-12:
        return mean
    means = np.random.default_rng(0).choice(array, (draws, len(array))).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{mean} [{number(float(low))}, {number(float(high))}]"


def figures(claim: Claim, runs: Sequence[Run], every: bool = False) -> dict[str, str]:
    """Name and mean of the figures that decide, or of all."""
    found = measured([run.figures for run in runs])
    names = [name for name in claim.deciding if name in found]
    names += [name for name in found if every and name not in names]
    return {name: interval(found[name].tolist()) for name in names}


def seeds(record: Record) -> str:
    """Which seeds the figures are of."""
    claim, runs = record.claim, record.of()
    if claim.exact and runs:
        return "exact"
    listed = [run.seed for run in runs]
    if listed and listed == list(range(listed[0], listed[0] + len(listed))):
        return f"{len(listed)}" + (f" ({listed[0]}–{listed[-1]})" if len(listed) > 1 else f" ({listed[0]})")
    return f"{len(listed)}"


def outcomes(record: Record) -> list[tuple[str, str]]:
    """Every condition, and whether it is met by the figures that are stored."""
    runs = measured([run.figures for run in record.of()])
    words = {True: "yes", False: "no", None: "in the mean or in four of five seeds, not in both"}
    return [
        (
            ("control: " if condition.control else "") + str(condition),
            words[condition.met(runs)] if runs else "not run",
        )
        for condition in record.claim.conditions
    ]


def data(record: Record, every: bool = True) -> dict[str, Any]:
    """All that is known of a claim, for programs."""
    claim = record.claim
    found: dict[str, Any] = {
        "claim": claim.number,
        "says": claim.says,
        "lectures": claim.lectures,
        "source": claim.places,
        "verdict": record.verdict.word,
        "why": record.verdict.why,
        "seeds": seeds(record),
        "exact": claim.exact,
        "minutes": claim.minutes,
        "options": list(claim.options),
    }
    if every:
        found |= {
            "experiment": claim.experiment,
            "control": claim.control,
            "conditions": [{"condition": what, "met": met} for what, met in outcomes(record)],
            "fixed": claim.fixed,
            "changed": claim.changed,
            "remark": claim.remark,
            "runs": [
                {"seed": run.seed, "figures": run.figures, "options": run.options} for run in record.runs
            ],
        }
    return found
