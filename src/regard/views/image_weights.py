"""Image: the weights of each word over a picture, on the grid of cells that the model read.

Where it is known what a cell has seen of the picture, its receptive field, a figure draws the weights spread
over it instead of square cells:

    P(y, x) = Σ_j p_j N(y; y_j, σ²) N(x; x_j, σ²),     σ = max(stride / 2, size / 8)

with the cells `stride` pixels apart and their fields `size` pixels wide; what a cell depends on most is in
the middle of its field. Xu et al. (2015), "Show, Attend and Tell", arXiv:1502.03044, §5.4, draw the same for
captions. Where the weights are those of a density over the plane, its contours are ellipses (`Ellipse`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from regard.core.errors import ShapeError
from regard.views.base_view import MatrixView
from regard.views.ellipses import Ellipse
from regard.views.picture import figure, font, scale, shades
from regard.views.png import data_url
from regard.views.ramps import EQUAL
from regard.views.shown_text import cropped, labels
from regard.views.weight_matrices import Array, Weights, facts, matrices_of, picked, same_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = 40  # words of a figure
CONTOUR = "#d6604d"  # as marks have in the browser


@dataclass(frozen=True, eq=False, kw_only=True)
class Image(MatrixView):
    """A picture (h, w, 3) under the cells of a grid."""

    kind: ClassVar[str] = "image"
    picture: Any  # (h, w, 3), bytes
    grid: tuple[int, int]
    receptive: tuple[int, int, float] | None = None  # size, stride and start of what a cell sees, in pixels
    ellipses: tuple[tuple[Ellipse, ...], ...] = ()  # of each matrix, one for each word; () without densities

    def __post_init__(self) -> None:
        """As words have it, an equal share is at most at a quarter of the ramp: the picture stays visible."""
        super().__post_init__()
        if all((one.weights >= 0).all() and one.weights.sum(-1).max() < 1.001 for one in self.matrices):
            share = 1 / max(len(self.source), 1)
            object.__setattr__(self, "most", max(self.most, min(1.0, share / EQUAL)))

    def content(self) -> dict[str, Any]:
        found = {**super().content(), "picture": data_url(self.picture), "grid": list(self.grid)}
        for matrix, some in zip(found["matrices"], self.ellipses, strict=False):
            matrix["ellipses"] = [one.content() for one in some]
        return found

    def drawn(self) -> "Figure":
        count = len(self.matrices) * len(self.target)
        if count > PANELS:
            raise ValueError(
                f"a picture holds at most {PANELS} words of one matrix; got {count}. Save a page: .html."
            )
        across = min(4 if count < 12 else 7, count + 1)
        down = -(-(count + 1) // across)
        high, wide = self.picture.shape[:2]
        picture = figure(2.1 * across, down * (2.1 * min(high / wide, 3) + 0.3))
        panels = picture.subplots(down, across, squeeze=False).flat
        for panel in picture.axes:
            panel.axis("off")
        next(panels).imshow(self.picture)
        pale = (self.picture / 2 + self.picture.mean(-1, keepdims=True) / 2) / 255  # colours are hinted at
        for number, one in enumerate(self.matrices):
            for place, (word, row) in enumerate(zip(self.target, one.weights, strict=True)):
                panel = next(panels)
                panel.imshow(pale, extent=(0, wide, high, 0))
                cells, most = row.reshape(self.grid), self.most
                if self.receptive is not None:
                    cells = spread(cells, (high, wide), self.receptive)
                    most = max(float(cells.max()), float(cells.mean()) / EQUAL) or 1.0
                cells = np.ma.masked_equal(cells, 0)
                how = {"cmap": shades(), "vmin": 0, "vmax": most, "alpha": 0.65, "interpolation": "nearest"}
                colours = panel.imshow(cells, extent=(0, wide, high, 0), aspect="equal", **how)
                if self.ellipses:
                    self.outline(panel, self.ellipses[number][place])
                said = ", ".join(filter(None, (word, one.name)))
                panel.set_title(cropped(said, 26), fontsize=9, parse_math=False, **font())
        if count and not self.legend_note():
            scale(picture, colours)
        return picture

    def legend_note(self) -> str:
        several = self.receptive is not None and len(self.matrices) * len(self.target) > 1
        return "Each panel has its own scale." if several else ""

    def outline(self, panel: Any, ellipse: Ellipse) -> None:
        """Draw the contours of a density, and a point at its mean."""
        high, wide = self.picture.shape[:2]
        for radius in ellipse.radii:
            down, across = ellipse.contour(radius).T
            panel.plot(across * wide, down * high, color="white", linewidth=2.2, clip_on=True)
            panel.plot(across * wide, down * high, color=CONTOUR, linewidth=1.1, clip_on=True)
        panel.plot(ellipse.mean[1] * wide, ellipse.mean[0] * high, "o", color=CONTOUR, markersize=2.5)
        panel.set_xlim(0, wide)
        panel.set_ylim(high, 0)


def image(
    weights: Weights,
    picture: Tensor | Array,
    target: Sequence[str] | None = None,
    *,
    grid: tuple[int, int] | None = None,
    receptive: tuple[int, int, float] | None = None,
    ellipses: Sequence[Sequence[Ellipse]] = (),
    layer: int | None = None,
    head: int | None = None,
    title: str = "",
    caption: str = "",
) -> Image:
    """Show weights (m, rows · columns) on a picture (h, w, 3) or (3, h, w), for each of the m target tokens.

    The picture holds bytes, or numbers between 0 and 1. `grid` is (rows, columns); without it, it is square.
    `receptive` says what a cell sees, in pixels: size, stride, and the middle of the first cell's field.
    `ellipses` are the densities that the weights come from: for each matrix one for each target token.
    """
    matrices = picked(matrices_of(weights), layer, head)
    m, n = same_size(matrices)
    rows, columns = grid or (round(n**0.5),) * 2
    if rows * columns != n:
        raise ShapeError(f"grid must be (rows, columns) with rows · columns = {n}; got ({rows}, {columns}).")
    if ellipses and [len(some) for some in ellipses] != [m] * len(matrices):
        raise ShapeError(
            f"ellipses must be {len(matrices)} lists, one for each matrix, of one for each of {m} tokens; "
            f"got {[len(some) for some in ellipses]}."
        )
    cells = [f"row {i + 1}, column {j + 1}" for i in range(rows) for j in range(columns)]
    return Image(
        source=tuple(cells),
        target=labels("target", target, m),
        matrices=matrices,
        picture=_bytes(picture),
        grid=(rows, columns),
        receptive=receptive,
        ellipses=tuple(map(tuple, ellipses)),
        title=title,
        caption=caption
        or f"{facts(weights)}Cells the model saw, {rows} × {columns}; one of weight exactly 0 is left as it "
        "is.",
    )


def spread(cells: Array, size: tuple[int, int], receptive: tuple[int, int, float]) -> Array:
    """Weights of cells (rows, columns) over the pixels (h, w) that they were made of; the sum stays."""
    field, stride, start = receptive
    deviation = max(stride / 2, field / 8)

    def bells(count: int, pixels: int) -> Array:  # (cells, pixels), each row of sum 1
        away = np.arange(pixels) - (start + stride * np.arange(count))[:, None]
        found = np.exp(-((away / deviation) ** 2) / 2)
        shares: Array = found / found.sum(1, keepdims=True)
        return shares

    rows, columns = cells.shape
    over: Array = bells(rows, size[0]).T @ cells.astype(np.float64) @ bells(columns, size[1])
    return over


def _bytes(picture: Tensor | Array) -> Any:
    array = picture.detach().cpu().numpy() if isinstance(picture, Tensor) else np.asarray(picture)
    if array.ndim == 2:
        array = np.repeat(array[..., None], 3, -1)
    if array.ndim == 3 and array.shape[-1] != 3 and len(array) == 3:
        array = array.transpose(1, 2, 0)
    if array.ndim != 3 or array.shape[-1] != 3 or not array.size:
        raise ShapeError(f"picture must be (h, w, 3), (3, h, w) or (h, w); got {tuple(array.shape)}.")
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
        raise ValueError(
            "picture must hold bytes, or numbers between 0 and 1; undo the model's normalisation."
        )
    return np.ascontiguousarray((array * 255).round().astype(np.uint8))
