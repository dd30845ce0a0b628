"""The table of planted models, by kind, in Markdown."""

from collections.abc import Sequence
from statistics import fmean

from regard.audits.calibration import Result, auc, graded, left_out, separation
from regard.audits.planted.kinds import KINDS
from regard.audits.planted.self_test import misjudged

TRUTH = {True: "faithful", False: "unfaithful", None: "only measurable"}
HEADINGS = ["kind", "truth", "models", "grade: mean", "least", "most", "kind left out: mean", "least", "most"]


def summary(fixing: Sequence[Result], reported: Sequence[Result]) -> str:
    """How each kind was graded, which models were misjudged, and the AUC: with and without its own kind."""
    grades = [result.grade() for result in reported]
    apart = left_out(fixing, reported)
    lines = [HEADINGS, ["---"] * len(HEADINGS)]
    for truth, name in TRUTH.items():
        for kind in (kind for kind, entry in KINDS.items() if entry.faithful is truth):
            ours = [i for i, result in enumerate(reported) if result.kind == kind]
            spreads = [_spread([graded(some[i]) for i in ours]) for some in (grades, apart)]
            lines.append([kind, name, str(len(ours)), *spreads[0], *spreads[1]])
    pairs = [(result.faithful, graded(grade)) for result, grade in zip(reported, apart, strict=True)]
    loose = auc(*([grade for truth, grade in pairs if truth is wanted] for wanted in (True, False)))
    known = sum(result.faithful is not None for result in reported)
    return "\n".join(
        [
            *(f"| {' | '.join(line)} |" for line in lines),
            "",
            f"AUC over {known} models: {separation(reported):.3f}; with each kind left out of the fixing: "
            f"{loose:.3f}. Models without a grade: {grades.count(None)}.",
            "",
            f"On the wrong side of ½: {_named(reported, grades)}. "
            f"With the kind left out: {_named(reported, apart)}.",
        ]
    )


def _spread(grades: Sequence[float]) -> list[str]:
    return [f"{function(grades):.2f}" for function in (fmean, min, max)]


def _named(results: Sequence[Result], grades: Sequence[float | None]) -> str:
    wrong = misjudged(results, grades)
    return "; ".join(f"{one.kind}, seed {one.seed}" for one in wrong) or "none"
