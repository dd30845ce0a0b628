"""regard scores: the scores there are."""

from regard.cli.app import app, console, plain_table
from regard.scores import SCORES


@app.command()
def scores() -> None:
    """List the scores: what each does, and whether it has parameters or takes different widths."""
    table = plain_table("score", "what it does", "learned", "d_q ≠ d_k")
    for entry in SCORES.values():
        facts = ("yes" if fact else "" for fact in (entry.learned, entry.any_widths))
        table.add_row(entry.name, entry.says, *facts)
    console().print(table)
