"""Trade-off: how good each candidate is against what it costs, a panel for each task."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from regard.views.picture import figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = [f"C{i}" for i in range(10)]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]  # 7 shapes and 10 colours: 70 pairs before one comes again


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

    A legend beside the panels has the names: each a colour and a shape, the same in all panels.
    `filled` and `hollow` are what these dots have in common; a legend says it where both are there.
    """
    if not panels:
        raise ValueError("panels must hold at least one candidate; got none.")
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogFormatter

    names = list(dict.fromkeys(one.name for found in panels.values() for one in found))
    looks = {name: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i, name in enumerate(names)}
    both = {one.filled for found in panels.values() for one in found} == {True, False}
    picture = figure(4.6 * len(panels) + 1.4, 4.2)
    axes = picture.subplots(1, len(panels), squeeze=False).flat
    for panel, (name, found) in zip(axes, panels.items(), strict=True):
        for one in found:
            colour, marker = looks[one.name]
            panel.scatter(
                [one.cost], [one.good], s=20 + 400 * one.size, marker=marker, edgecolors=colour,
                facecolors=colour if one.filled else "none", alpha=0.7, linewidths=1.5,
            )  # fmt: skip
        if levels and name in levels:
            panel.axhline(levels[name], color="grey", linewidth=0.8, linestyle="--")
        panel.set(xscale="log", xlabel=cost, ylabel=good, title=name)
        panel.xaxis.set_major_formatter(LogFormatter())  # 300, not 3 × 10²
        panel.xaxis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 0.4)))
        panel.spines[["top", "right"]].set_visible(False)
        if both and filled and hollow:
            dots = [
                Line2D([], [], linestyle="", marker="o", color="grey", label=what, markerfacecolor=face)
                for what, face in ((filled, "grey"), (hollow, "none"))
            ]
            panel.legend(handles=dots, fontsize=7, frameon=False, loc="best")
    known = [
        Line2D([], [], linestyle="", marker=marker, color=colour, label=name)
        for name, (colour, marker) in looks.items()
    ]
    picture.legend(handles=known, fontsize=8, frameon=False, loc="outside right center")
    return picture
