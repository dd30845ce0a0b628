"""Layers: the weights of one word, layer by layer. Rollout and flow are such weights too."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from regard.core.errors import ShapeError
from regard.views import matrix_figure
from regard.views.base_view import MOST, MatrixView
from regard.views.weight_matrices import Matrix, matrices_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, kw_only=True)
class Layers(MatrixView):
    """For each target word a matrix: layers down, source across. `matrices` has one (m, n) per layer."""

    kind: ClassVar[str] = "layers"

    def drawn(self) -> "Figure":
        if len(self.target) > MOST:
            raise ValueError(
                f"a picture holds at most {MOST} target words; got {len(self.target)}. Give some rows, "
                "weights[..., :4, :], or save a page: .html."
            )
        across = min(3, len(self.target)) if len(self.source) <= 20 else 1
        down = -(-len(self.target) // across)
        names = [one.name for one in self.matrices]
        picture, panels = matrix_figure.grid(down, across, self.source, names)
        for i, panel in enumerate(panels):
            if i >= len(self.target):
                panel.set_visible(False)
                continue
            rows = Matrix(np.stack([one.weights[i] for one in self.matrices]), self.target[i])
            colours = matrix_figure.draw(panel, rows, self.source, names, "even", self.most, self.unknown)
            if i % across:
                panel.set_yticks([])
        matrix_figure.bar(picture, colours)
        return picture


def layers(
    weights: Tensor | Sequence[Any],
    source: Sequence[str] | None = None,
    target: Sequence[str] | None = None,
    *,
    title: str = "",
    caption: str = "",
) -> Layers:
    """Show weights over layers: (layers, m, n), or a sequence of layers whose heads are averaged.

    For each of the m target tokens the layers stand under each other, the first on top.
    """
    heads = 1
    if isinstance(weights, Tensor):
        if weights.dim() != 3:
            raise ShapeError(f"weights must be (layers, m, n); got {tuple(weights.shape)}.")
        found = [Matrix(one.weights, f"layer {k + 1}", k) for k, one in enumerate(matrices_of(list(weights)))]
    else:
        found = []
        for k, layer in enumerate(weights):
            matrices = matrices_of([layer])
            heads = max(heads, len(matrices))
            mean = np.mean([one.weights for one in matrices], axis=0)
            found.append(Matrix(mean, f"layer {k + 1}", k))
    averaged = f" The mean of {heads} heads." if heads > 1 else ""
    return Layers.of(
        found,
        source,
        target,
        title=title,
        caption=caption or f"Source across, layers down, for each target word.{averaged}",
    )
