"""Trade-off: how good each candidate is against what it costs, a panel for each task."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from regard.views.picture import figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Candidate(NamedTuple):
    """A dot: its name, where it stands, and how large it is (1 is the largest)."""

    name: str
    cost: float
    good: float
    size: float
    filled: bool = True


def tradeoff(
    panels: Mapping[str, Sequence[Candidate]], cost: str, good: str, levels: Mapping[str, float] | None = None
) -> "Figure":
    """Draw candidates of each panel; `levels` are dashed lines, by panel: what guessing reaches."""
    if not panels:
        raise ValueError("panels must hold at least one candidate; got none.")
    picture = figure(4.6 * len(panels), 4.2)
    axes = picture.subplots(1, len(panels), squeeze=False).flat
    for panel, (name, found) in zip(axes, panels.items(), strict=True):
        for one in found:
            face = "C0" if one.filled else "none"
            panel.scatter(
                [one.cost], [one.good], s=20 + 400 * one.size, facecolors=face, edgecolors="C0", alpha=0.6
            )
            panel.annotate(
                one.name, (one.cost, one.good), fontsize=7, xytext=(4, 4), textcoords="offset points"
            )
        if levels and name in levels:
            panel.axhline(levels[name], color="grey", linewidth=0.8, linestyle="--")
        panel.set(xscale="log", xlabel=cost, ylabel=good, title=name)
        panel.spines[["top", "right"]].set_visible(False)
    return picture
