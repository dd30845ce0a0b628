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
    panels: Mapping[str, Sequence[Candidate]],
    cost: str,
    good: str,
    levels: Mapping[str, float] | None = None,
    *,
    filled: str = "",
    hollow: str = "",
) -> "Figure":
    """Draw candidates of each panel; `levels` are dashed lines, by panel: what guessing reaches.

    `filled` and `hollow` are what these dots have in common; a legend says it where both are there.
    """
    if not panels:
        raise ValueError("panels must hold at least one candidate; got none.")
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogFormatter

    both = {one.filled for found in panels.values() for one in found} == {True, False}
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
        panel.xaxis.set_major_formatter(LogFormatter())  # 300, not 3 × 10²
        panel.xaxis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 0.4)))
        panel.spines[["top", "right"]].set_visible(False)
        if both and filled and hollow:
            dots = [
                Line2D(
                    [], [], linestyle="", marker="o", color="C0", alpha=0.6, label=what, markerfacecolor=face
                )
                for what, face in ((filled, "C0"), (hollow, "none"))
            ]
            panel.legend(handles=dots, fontsize=7, frameon=False, loc="best")
    return picture
