"""Bars: one vector of scores through several maps."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from regard.core.errors import ShapeError
from regard.views.picture import COLOUR, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def bars(weights: Mapping[str, Tensor], labels: Sequence[str] | None = None) -> "Figure":
    """Draw weights (n,) by the name of their map, a panel each; labels (n) stand under the bars.

    A weight of exactly 0 has no bar, however small the others are.
    """
    if not weights:
        raise ValueError("weights must hold at least one map; got none.")
    shapes = {tuple(w.shape) for w in weights.values()}
    if len(shapes) > 1 or len(min(shapes)) != 1:
        raise ShapeError(f"weights must all be (n,) with the same n; got {sorted(shapes)}.")
    ((n,),) = shapes
    if labels is not None and len(labels) != n:
        raise ShapeError(f"labels must be {n}, one per weight; got {len(labels)}.")
    across = min(4, len(weights))
    down = -(-len(weights) // across)
    picture = figure(2.4 * across, 1.7 * down + 0.3)
    panels = picture.subplots(down, across, sharex=True, sharey=True, squeeze=False).flat
    for panel, (name, w) in zip(panels, weights.items(), strict=False):
        there = [j for j in range(n) if w[j] != 0]
        panel.bar(there, [float(w[j]) for j in there], color=COLOUR, width=0.8)
        panel.set_title(name, fontsize=9)
        panel.set_xlim(-0.6, n - 0.4)
        panel.set_xticks(range(n), labels or [str(j + 1) for j in range(n)], fontsize=7, parse_math=False)
        panel.tick_params(axis="y", labelsize=7)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in picture.axes[len(weights) :]:
        panel.set_visible(False)
    picture.supylabel("weight", fontsize=8)
    return picture
