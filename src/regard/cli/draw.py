"""Weights drawn with characters. What is exactly 0 is not drawn; what is not, is, however small."""

from collections.abc import Sequence

from rich.table import Table
from torch import Tensor

from regard.cli.app import plain_table

EIGHTHS = " ▏▎▍▌▋▊▉█"  # filled from the left
HEIGHTS = "▁▂▃▄▅▆▇█"
NUMBER = 5  # characters of a number
BAR = 12  # characters of a number and a bar that says something


def bar(weight: float, width: int) -> str:
    """A bar of at most `width` characters for a weight between 0 and 1."""
    if not weight > 0:
        return ""
    eighths = max(1, round(min(weight, 1.0) * width * 8))
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def column(weight: float) -> str:
    """A column one character wide for a weight between 0 and 1."""
    return HEIGHTS[min(7, int(weight * 8))] if weight > 0 else "·"


def number(weight: float) -> str:
    """Three decimals; an exact 0 is written 0."""
    return f"{weight:.3f}" if weight else "0"


def table(weights: dict[str, Tensor], labels: Sequence[str], width: int) -> Table:
    """Weights (n,) by the name of their map, one map per line, in a table of this width.

    Every weight has its number and bar if there is room, else its number and a column, else a column.
    """
    room = (width - max(map(len, weights)) - 12) // len(labels) - 2  # characters for each weight
    drawn = plain_table("map", no_wrap=True)
    for label in labels if room >= NUMBER else ():
        drawn.add_column(label)
    if room < BAR:
        drawn.add_column("" if room >= NUMBER else "weights")
    drawn.add_column("support", justify="right")
    for name, row in weights.items():
        p = row.tolist()
        columns = "".join(map(column, p))
        if room >= BAR:
            cells = [f"{number(w):<{NUMBER}} {bar(w, min(room, 24) - NUMBER - 1)}" for w in p]
        else:
            cells = [*map(number, p), columns] if room >= NUMBER else [columns]
        drawn.add_row(name, *cells, str(sum(w > 0 for w in p)))
    return drawn
