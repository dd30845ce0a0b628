"""The table of planted models, by kind, in Markdown."""

from collections.abc import Sequence
from statistics import fmean

from regard.audits.calibration import Result, auc, graded, left_out, separation
from regard.audits.planted.self_test import misjudged
from regard.audits.planted.table import KINDS

TRUTH = {True: "faithful", False: "unfaithful", None: "only measurable"}


def summary(fixing: Sequence[Result], reported: Sequence[Result]) -> str:
    """How each kind was graded, which models were misjudged, and the AUC: with and without its own kind."""
    grades = [result.grade() for result in reported]
    apart = left_out(fixing, reported)
    lines = [
        "| kind | truth | models | grade: mean | least | most | kind left out: mean | least | most |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, entry in KINDS.items():
        ours = [i for i, result in enumerate(reported) if result.kind == kind]
        cells = [_spread([graded(some[i]) for i in ours]) for some in (grades, apart)]
        lines.append(f"| {kind} | {TRUTH[entry.faithful]} | {len(ours)} | {' | '.join(cells)} |")
    known = [result for result in reported if result.faithful is not None]
    loose = {
        truth: [graded(grade) for result, grade in zip(reported, apart, strict=True) if result.faithful is truth]
        for truth in (True, False)
    }
    lines += [
        "",
        f"AUC over {len(known)} models: {separation(reported):.3f}; "
        f"with each kind left out of the fixing: {auc(loose[True], loose[False]):.3f}. "
        f"Models without a grade: {grades.count(None)}.",
        "",
        "On the wrong side of ½: " + _named(reported, grades) + ".",
        "With the kind left out: " + _named(reported, apart) + ".",
    ]
    return "\n".join(lines)


def _spread(grades: Sequence[float]) -> str:
    return f"{fmean(grades):.2f} | {min(grades):.2f} | {max(grades):.2f}"


def _named(results: Sequence[Result], grades: Sequence[float | None]) -> str:
    wrong = misjudged(results, grades)
    return "; ".join(f"{one.kind}, seed {one.seed}" for one in wrong) or "none"
