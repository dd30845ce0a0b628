"""regard scores: the scores there are."""

from rich.table import Table

from regard.cli.app import app, console
from regard.scores import SCORES


@app.command()
def scores() -> None:
    """List the scores: what each does, and whether it has parameters or takes different widths."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("score", "what it does", "learned", "d_q ≠ d_k"):
        table.add_column(heading)
    for entry in SCORES.values():
        table.add_row(
            entry.name, entry.says, *("yes" if fact else "" for fact in (entry.learned, entry.any_widths))
        )
    console().print(table)
