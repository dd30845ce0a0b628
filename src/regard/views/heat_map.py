"""Heat map: who looks at what. The source goes across, the target down."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from regard.core.errors import ShapeError
from regard.views.picture import figure, shades

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def heat_map(
    weights: Tensor | Mapping[str, Tensor],
    source: Sequence[str] | None = None,
    target: Sequence[str] | None = None,
) -> "Figure":
    """Draw weights (m, n), or several by name, with the n source tokens across and the m target tokens down.

    A weight of exactly 0 is left out: the paper shows, not the palest shade.
    """
    named = {"": weights} if isinstance(weights, Tensor) else dict(weights)
    m, n = _size(named)
    for name, labels, size in (("source", source, n), ("target", target, m)):
        if labels is not None and len(labels) != size:
            raise ShapeError(f"{name} must have {size} tokens; got {len(labels)}.")
    picture = figure(min(1.5 + (0.35 * n + 0.2) * len(named), 16), min(1.2 + 0.35 * m, 16))
    panels = picture.subplots(1, len(named), sharey=True, squeeze=False)[0]
    numbers = {name: p.detach().double().cpu().numpy() for name, p in named.items()}
    most = max(p.max(initial=0) for p in numbers.values()) or 1
    for panel, (name, p) in zip(panels, numbers.items(), strict=True):
        cells = panel.imshow(np.ma.masked_equal(p, 0), cmap=shades(), vmin=0, vmax=most)
        panel.xaxis.tick_top()
        panel.tick_params(length=0, labelsize=8)
        panel.set_title(name, fontsize=10)
        if source is not None:
            panel.set_xticks(range(n), source, rotation=90, parse_math=False)
        if target is not None:
            panel.set_yticks(range(m), target, parse_math=False)
    picture.colorbar(cells, ax=panels, shrink=0.7).ax.tick_params(labelsize=7)
    return picture


def _size(named: Mapping[str, Tensor]) -> tuple[int, int]:
    shapes = sorted({tuple(p.shape) for p in named.values()})
    if len(shapes) != 1 or len(shapes[0]) != 2:
        raise ShapeError(f"weights must be (m, n), all of one shape; got {shapes}. Pick one head first.")
    return shapes[0]
