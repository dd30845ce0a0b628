"""Lines: two sentences side by side, and a line between two words as strong as the weight."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from regard.views.base_view import MatrixView, paper
from regard.views.matrix_figure import room
from regard.views.picture import BELOW, COLOUR, DOTTED, INK, figure, font
from regard.views.shown_text import cropped
from regard.views.weight_matrices import Matrix, Weights, facts, matrices_of, picked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STRONGEST = 20_000  # lines of one picture


@dataclass(frozen=True, eq=False, kw_only=True)
class Lines(MatrixView):
    """Words in two columns, the source on the left."""

    kind: ClassVar[str] = "lines"

    def drawn(self) -> "Figure":
        paper(self.matrices)
        across = min(4, len(self.matrices))
        down = -(-len(self.matrices) // across)
        longer = max(len(self.source), len(self.target))
        width = 1.6 + room(self.source) + room(self.target)
        picture = figure(max(across * width, 3), down * (0.22 * longer + 0.6))
        panels = picture.subplots(down, across, squeeze=False).flat
        for panel, one in zip(panels, self.matrices, strict=False):
            self._panel(panel, one)
        for panel in picture.axes[len(self.matrices) :]:
            panel.set_visible(False)
        return picture

    def _panel(self, axes: "Axes", one: Matrix) -> None:
        from matplotlib.collections import LineCollection
        from matplotlib.colors import to_rgba

        m, n = one.weights.shape
        i, j = np.nonzero(one.weights)
        weight = one.weights[i, j]
        order = np.argsort(abs(weight), kind="stable")[-STRONGEST:]  # the strongest on top
        i, j, share = i[order], j[order], abs(weight[order]) / self.most
        middle = max(m, n) / 2
        left, right = middle - n / 2 + j, middle - m / 2 + i
        ends = np.stack([np.stack([np.zeros(len(j)), left], -1), np.stack([np.ones(len(i)), right], -1)], 1)
        signs = zip(weight[order], 0.12 + 0.88 * share, strict=True)
        colours = [to_rgba(BELOW if sign < 0 else COLOUR, alpha) for sign, alpha in signs]
        lines = LineCollection(list(ends), colors=colours, linewidths=0.4 + 2.6 * share)
        axes.add_collection(lines)
        sides = ((-0.03, self.source, n, "right", self.unknown), (1.03, self.target, m, "left", ()))
        for x, tokens, size, side, unknown in sides:
            for k, token in enumerate(tokens):
                how: dict[str, Any] = {
                    "ha": side,
                    "va": "center",
                    "fontsize": 8,
                    "color": INK,
                    "parse_math": False,
                    "bbox": DOTTED if k in unknown else None,
                }
                axes.text(x, middle - size / 2 + k, cropped(token), **how, **font())
        axes.set(xlim=(-0.05, 1.05), ylim=(max(m, n) - 0.3, -0.7))
        axes.set_title(cropped(one.name, 40), fontsize=9, parse_math=False, **font())
        axes.axis("off")


def lines(
    weights: Weights, source: Sequence[str] | None = None, target: Sequence[str] | None = None, *,
    layer: int | None = None, head: int | None = None, title: str = "", caption: str = "",
) -> Lines:  # fmt: skip
    """Show weights (m, n), or several, as lines from the n source tokens to the m target tokens.

    The larger the weight, the broader and darker the line; a weight of exactly 0 has none.
    """
    return Lines.of(
        picked(matrices_of(weights), layer, head),
        source,
        target,
        title=title,
        caption=caption or f"{facts(weights)}Source left, target right; a weight of exactly 0 has no line.",
    )
