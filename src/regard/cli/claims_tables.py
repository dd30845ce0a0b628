"""What `regard claims` prints: all that is known of a claim; what a run found beside what is published."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from regard.cli.app import console, plain_table, say

if TYPE_CHECKING:
    from regard.claims.stored_figures import Record


def compared(ours: "Record", options: dict[str, str]) -> dict[str, Any]:
    """What was found of a claim, beside what is published."""
    from regard.claims.claim_summary import figures
    from regard.claims.stored_figures import agreement, agrees, read
    from regard.claims.verdict_of_claim import judge

    claim, runs = ours.claim, ours.of(options)
    published, verdict = read(claim), judge(claim, [run.figures for run in runs])
    return {
        "claim": claim.number,
        "says": claim.says,
        "seeds": [run.seed for run in runs],
        "options": options,
        "verdict": str(verdict),
        "published": str(published.verdict),
        "agrees": None if options else agrees(verdict, published.verdict),
        "largest difference": None if options else agreement(runs, published.of()),
        "figures": figures(claim, runs, every=True),
    }


def report(answers: list[dict[str, Any]], to: Path) -> None:
    """Print what was found: all figures of one claim, a line each of several."""
    words = {True: "the same", False: "ANOTHER", None: ""}
    if len(answers) == 1 and answers[0]["figures"]:
        (answer,) = answers
        table = plain_table("figure", "mean")
        for name, value in answer["figures"].items():
            table.add_row(name, value)
        console(120).print(table)
    table = plain_table("", "seeds", "verdict", "published", "", "apart", right=("seeds", "apart"))
    for answer in answers:
        apart = answer["largest difference"]
        table.add_row(
            answer["claim"],
            str(len(answer["seeds"])),
            answer["verdict"],
            answer["published"],
            words[answer["agrees"]],
            "" if apart is None else f"{apart:.2g}",
        )
    console(150).print(table)
    say(f"Stored in {to}; apart: the largest difference of a figure from the published one of the same seed.")


def describe(record: "Record") -> None:
    """Print all that is known of a claim."""
    from regard.claims.claim_summary import outcomes

    claim, screen = record.claim, console(120)
    lines = [
        ("", f"{claim.number}. {claim.says}"),
        ("said by", claim.places),
        ("experiment", claim.experiment),
        ("control", claim.control),
        ("fixed in", claim.fixed),
        ("changed after a look", claim.changed),
        ("one run takes", f"about {minutes(60 * claim.minutes)}, one thread"),
        ("takes", ", ".join(f"--{name}" for name in claim.options)),
        ("verdict", str(record.verdict)),
        ("remark", claim.remark),
    ]
    for name, text in lines:
        if text:
            screen.print(f"{name}: {text}" if name else text, markup=False, highlight=False, soft_wrap=False)
    if claim.conditions:
        table = plain_table("threshold", "met")
        for what, met in outcomes(record):
            table.add_row(what, met)
        screen.print(table)
    if record.of():
        screen.print(_by_seed(record))


def _by_seed(record: "Record") -> Table:
    """Figures down, seeds across."""
    from regard.claims.claim_summary import figures, number

    runs = record.of()
    table = plain_table("figure", "mean", *(f"seed {run.seed}" for run in runs))
    for name, mean in figures(record.claim, runs, every=True).items():
        table.add_row(name, mean, *(number(run.figures[name]) for run in runs))
    return table


def minutes(seconds: float) -> str:
    """A time in words."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
