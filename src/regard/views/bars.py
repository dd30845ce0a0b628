"""Bars: one vector of scores through several maps, or several numbers for each of a few names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from regard.core.errors import ShapeError
from regard.views.base_view import View
from regard.views.picture import COLOUR, figure, font
from regard.views.shown_text import labels as shown_labels
from regard.views.shown_text import shown
from regard.views.weight_matrices import rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, kw_only=True)
class Bars(View):
    """A panel for each name."""

    kind: ClassVar[str] = "bars"
    weights: Mapping[str, list[float]]
    labels: tuple[str, ...]
    unit: str = "weight"

    def content(self) -> dict[str, Any]:
        named = [{"name": shown(name), "weights": w} for name, w in self.weights.items()]
        return {"labels": list(self.labels), "rows": named, "unit": shown(self.unit)}

    def drawn(self) -> "Figure":
        n = len(self.labels)
        across = min(4, len(self.weights))
        down = -(-len(self.weights) // across)
        picture = figure(2.4 * across, 1.7 * down + 0.3)
        panels = picture.subplots(down, across, sharex=True, sharey=True, squeeze=False).flat
        for panel, (name, w) in zip(panels, self.weights.items(), strict=False):
            there = [j for j in range(n) if w[j] != 0]
            panel.bar(there, [w[j] for j in there], color=COLOUR, width=0.8)
            panel.set_title(name, fontsize=9, parse_math=False)
            panel.set_xlim(-0.6, n - 0.4)
            panel.set_xticks(range(n), self.labels, fontsize=7, parse_math=False, **font())
            panel.tick_params(axis="y", labelsize=7)
            panel.spines[["top", "right"]].set_visible(False)
        for panel in picture.axes[len(self.weights) :]:
            panel.set_visible(False)
        picture.supylabel(self.unit, fontsize=8, parse_math=False)
        return picture


def bars(
    weights: Mapping[str, Tensor],
    labels: Sequence[str] | None = None,
    *,
    unit: str = "weight",
    title: str = "",
    caption: str = "",
) -> Bars:
    """Show weights (n,) by the name of their map, a panel each; labels (n) are under the bars.

    A weight of exactly 0 has no bar, however small the others are. `unit` says what else it is that is shown.
    """
    if not weights:
        raise ValueError("weights must hold at least one map; got none.")
    shapes = {tuple(w.shape) for w in weights.values()}
    if len(shapes) > 1 or len(min(shapes)) != 1:
        raise ShapeError(f"weights must all be (n,) with the same n; got {sorted(shapes)}.")
    ((n,),) = shapes
    return Bars(
        weights={name: rows(w.detach().cpu()[None].numpy())[0] for name, w in weights.items()},
        labels=shown_labels("labels", labels, n),
        unit=unit,
        title=title,
        caption=caption,
    )
