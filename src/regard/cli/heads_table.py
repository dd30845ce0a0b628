"""Tables of heads: what each does, and which are left."""

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text as Line

if TYPE_CHECKING:
    from regard.analyses import HeadRoles, Pruned


def table(found: "list[HeadRoles]", sentences: int) -> Table:
    """Heads down, roles across: where a head is farthest above its yardstick, what it scores, and that."""
    roles = list(dict.fromkeys(role for head in found for role in head.scores))
    drawn = Table(
        title=f"{sentences:,} sentences",
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="bold",
        padding=(0, 2, 0, 0),
    )
    for name in ("head", *roles):
        drawn.add_column(name, no_wrap=True)
    for head in found:
        cells = [Line(f"{head.layer + 1}.{head.head + 1}", style="bold" if head.roles else "")]
        for role in roles:
            score = head.best(role)
            assert score is not None
            what = (
                ""
                if role in ("rare words", "subwords")
                else f"{score.what:<{8 if role == 'syntactic' else 2}} "
            )
            style = "bold green" if score.plays else "dim"
            cells.append(Line(f"{what}{score.score:.2f} / {score.yardstick:.2f}", style=style))
        drawn.add_row(*cells)
    return drawn


def pruned_table(found: "list[Pruned]") -> Table:
    """Prices down: how many heads are kept, how well the run still does, and which heads, by layer."""
    drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("price", "heads", "loss", "accuracy", "open, by layer"):
        drawn.add_column(name, no_wrap=True)
    before = found[0].before
    drawn.add_row("before", str(found[0].heads), f"{before['loss']:.3f}", f"{before['accuracy']:.3f}", "")
    for one in found:
        layers = " ".join("".join(_gate(gate) for gate in gates) for gates in one.gates.values())
        after = one.after
        drawn.add_row(
            f"{one.penalty:g}", str(one.kept), f"{after['loss']:.3f}", f"{after['accuracy']:.3f}", layers
        )
    return drawn


def _gate(gate: float) -> str:
    return "█" if gate > 0 else "·"
