"""Heat map: the weights between two sequences. The source goes across, the target down.

ramp="black_to_white" draws 0 black and 1 white, as the lectures do and Bahdanau, Cho & Bengio (2015),
arXiv:1409.0473, Figure 3.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from regard.views import matrix_figure
from regard.views.base_view import MatrixView, paper
from regard.views.weight_matrices import Weights, facts, matrices_of, picked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS = 4  # matrices beside each other
CELLS = 2500  # over which links are drawn, at most
LINK = "#d6604d"
OUTLINED = " Outlined: the links that were given."


@dataclass(frozen=True, eq=False, kw_only=True)
class HeatMap(MatrixView):
    """One matrix or a few, with words on both sides."""

    kind: ClassVar[str] = "heat_map"
    links: tuple[tuple[int, int], ...] = ()  # (source, target): cells in an outlined box

    def content(self) -> dict[str, Any]:
        return {**super().content(), "links": [list(link) for link in self.links]}

    def drawn(self) -> "Figure":
        paper(self.matrices)
        across = min(ACROSS, len(self.matrices)) if len(self.source) <= 40 else 1
        down = -(-len(self.matrices) // across)
        picture, panels = matrix_figure.grid(down, across, self.source, self.target)
        for k, (panel, one) in enumerate(zip(panels, self.matrices, strict=False)):
            colours = matrix_figure.draw(
                panel, one, self.source, self.target, self.ramp, self.most, self.unknown
            )
            for i, j in self.links:
                panel.add_patch(matrix_figure.outline(i, j, LINK))
            if k % across:
                panel.set_yticks([])
        for panel in panels[len(self.matrices) :]:
            panel.set_visible(False)
        matrix_figure.bar(picture, colours)
        return picture


def heat_map(
    weights: Weights,
    source: Sequence[str] | None = None,
    target: Sequence[str] | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    ramp: str = "even",
    links: Iterable[tuple[int, int]] = (),
    title: str = "",
    caption: str = "",
) -> HeatMap:
    """Show weights (m, n), or several, with the n source tokens across and the m target tokens down.

    A weight of exactly 0 is left out: the paper shows, not the palest shade. `layer` and `head`, counted from
    0, pick from many. ramp="black_to_white" draws 0 black and 1 white, whatever the largest weight is.
    `links`, pairs (source, target) counted from 0, are drawn as outlined boxes, as Koehn & Knowles (2017),
    arXiv:1706.03872, draw the links of an aligner over the weights of a translator.
    """
    matrices = picked(matrices_of(weights), layer, head)
    for one in matrices:
        low, high = float(one.weights.min()), float(one.weights.max())
        if low < 0 and max(-low, high) > 1:  # a difference of weights is within ±1
            raise ValueError(
                f"weights must be at least 0, and their differences within ±1; got {low:.3g} to {high:.3g}. "
                "Raw scores become weights by a map: regard.maps.softmax(scores)."
            )
    outlined = _checked(links, *matrices[0].weights.shape)
    return HeatMap.of(
        matrices,
        source,
        target,
        ramp=ramp,
        links=outlined,
        title=title,
        caption=(caption or facts(weights) + _says(ramp)) + (OUTLINED if outlined else ""),
    )


def _checked(links: Iterable[tuple[int, int]], m: int, n: int) -> tuple[tuple[int, int], ...]:
    """Links within m target and n source tokens, in their order."""
    found = tuple(sorted((int(i), int(j)) for i, j in links))
    for i, j in found:
        if not (0 <= i < n and 0 <= j < m):
            raise ValueError(
                f"links must be pairs (source, target) of {n} source and {m} target tokens, counted from 0; "
                f"got {(i, j)}."
            )
    if found and m * n > CELLS:
        raise ValueError(f"links are drawn over at most {CELLS:,} cells; got {m} × {n}.")
    return found


def _says(ramp: str) -> str:
    if ramp == "black_to_white":
        return "Source across, target down; 0 is black, 1 is white."
    return "Source across, target down; a weight of exactly 0 is not drawn."
