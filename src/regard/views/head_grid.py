"""Heads: every layer and every head at once, as small pictures to be compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from regard.views.base_view import MatrixView
from regard.views.picture import figure, scale, shades
from regard.views.shown_text import cropped
from regard.views.weight_matrices import Matrix, Weights, facts, matrices_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE = 0.9  # inches of the longer side of a small picture


@dataclass(frozen=True, eq=False, kw_only=True)
class Heads(MatrixView):
    """Layers down, heads across; the page enlarges one."""

    kind: ClassVar[str] = "heads"

    def drawn(self) -> "Figure":
        rows = [[one for one in self.matrices if one.layer == layer] for layer in _unique(self.matrices)]
        if len(rows) == 1:  # one layer's heads, or matrices by name: in lines of eight
            rows = [list(self.matrices[i : i + 8]) for i in range(0, len(self.matrices), 8)]
        across = max(map(len, rows))
        m, n = len(self.target), len(self.source)
        wide, high = SIDE * n / max(m, n), SIDE * m / max(m, n)
        picture = figure(max(3, across * (max(wide, 0.5) + 0.1) + 0.8), len(rows) * (max(high, 0.2) + 0.28))
        panels = picture.subplots(len(rows), across, squeeze=False)
        masked = self.ramp == "even"
        colours: Any = None
        for down, row in enumerate(rows):
            for right, panel in enumerate(panels[down]):
                panel.set(xticks=[], yticks=[])
                panel.spines[:].set_color("#c3cad1")
                if right >= len(row):
                    panel.set_visible(False)
                    continue
                one = row[right]
                p = np.ma.masked_equal(one.weights, 0) if masked else one.weights
                signed = one.signed and masked
                colours = panel.imshow(
                    p, cmap=shades(self.ramp, signed), vmin=-self.most if signed else 0, vmax=self.most
                )
                if right == 0 and one.layer is not None:
                    panel.set_ylabel(f"layer {one.layer + 1}", fontsize=7)
                if down == 0 or one.layer is None:
                    name = one.name if one.head is None else f"head {one.head + 1}"
                    panel.set_title(cropped(name), fontsize=7, parse_math=False, pad=2)
        scale(picture, colours)
        return picture


def _unique(matrices: Sequence[Matrix]) -> list[int | None]:
    return list(dict.fromkeys(one.layer for one in matrices))


def heads(
    weights: Weights,
    source: Sequence[str] | None = None,
    target: Sequence[str] | None = None,
    *,
    ramp: str = "even",
    title: str = "",
    caption: str = "",
) -> Heads:
    """Show every head of every layer: a tuple of layers, each (heads, m, n) or (1, heads, m, n).

    All have one scale. On the page a click, or Enter, enlarges one, with its n source and m target tokens.
    """
    return Heads.of(
        matrices_of(weights),
        source,
        target,
        ramp=ramp,
        title=title,
        caption=caption or f"{facts(weights)}Source across, target down; one scale for all.",
    )
