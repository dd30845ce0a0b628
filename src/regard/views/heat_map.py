"""Heat map: who looks at what. The source goes across, the target down.

The lectures' saliency map is ramp="black_to_white": 0 is black, 1 is white, as in Bahdanau, Cho & Bengio
(2015), arXiv:1409.0473, Figure 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from regard.views import matrix
from regard.views.maps import Weights, facts, maps_of, picked
from regard.views.view import MapView, paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS = 4  # maps beside each other


@dataclass(frozen=True, eq=False, kw_only=True)
class HeatMap(MapView):
    """One matrix or a few, with words on both sides."""

    kind: ClassVar[str] = "heat_map"

    def drawn(self) -> "Figure":
        paper(self.maps)
        across = min(ACROSS, len(self.maps)) if len(self.source) <= 40 else 1
        down = -(-len(self.maps) // across)
        picture, panels = matrix.grid(down, across, self.source, self.target)
        for k, (panel, one) in enumerate(zip(panels, self.maps, strict=False)):
            colours = matrix.draw(panel, one, self.source, self.target, self.ramp, self.most)
            if k % across:
                panel.set_yticks([])
        for panel in panels[len(self.maps) :]:
            panel.set_visible(False)
        matrix.bar(picture, colours)
        return picture


def heat_map(
    weights: Weights,
    source: Sequence[str] | None = None,
    target: Sequence[str] | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    ramp: str = "even",
    title: str = "",
    caption: str = "",
) -> HeatMap:
    """See weights (m, n), or several, with the n source tokens across and the m target tokens down.

    A weight of exactly 0 is left out: the paper shows, not the palest shade. `layer` and `head`, counted from
    0, pick from many. ramp="black_to_white" draws 0 black and 1 white, whatever the largest weight is.
    """
    return HeatMap.of(
        picked(maps_of(weights), layer, head),
        source,
        target,
        ramp=ramp,
        title=title,
        caption=caption or facts(weights) + _says(ramp),
    )


def _says(ramp: str) -> str:
    if ramp == "black_to_white":
        return "Source across, target down; 0 is black, 1 is white."
    return "Source across, target down; a weight of exactly 0 is not drawn."
