"""A matrix on paper: cells, words beside them, numbers inside where there is room."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views.picture import DOTTED, INK, figure, font, measured, shades
from regard.views.shown_text import cropped
from regard.views.weight_matrices import Array, Matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle


LETTER = 0.14  # inches that a line of small letters needs
LONGEST = 400  # words that all have a label; of more, some
BAR = 0.65  # inches of the ramp beside the matrices
NUMBERS = 12  # words of the longer side up to which cells hold their numbers


def cell(m: int, n: int) -> float:
    """Inches of a cell's side: large enough for its number, then for its label, then whatever fits."""
    longer = max(m, n)
    if longer <= NUMBERS:
        return 0.42
    return 0.26 if longer <= 40 else LETTER if longer <= LONGEST else LETTER * LONGEST / longer


def room(labels: Sequence[str]) -> float:
    """Inches that the longest label needs."""
    return 0.12 + max(measured(cropped(label), 8) for label in labels[:: _every(len(labels))])


def grid(
    down: int, across: int, source: Sequence[str], target: Sequence[str], *, each: bool = False
) -> tuple["Figure", list["Axes"]]:
    """A figure with axes for down × across matrices of these words, row by row.

    The target stands beside the first of each row; beside all of them with each=True.
    """
    side = cell(len(target), len(source))
    wide, high, left, top = side * len(source), side * len(target), room(target), room(source) + 0.32
    steps = [left + wide + 0.2 if each else wide + 0.2] * across
    width = (0 if each else left) + sum(steps) + BAR
    height = down * (high + top + 0.1) + 0.05
    picture = figure(max(width, 3), height, layout=None)
    places = []
    for i in range(down):
        for j in range(across):
            x = left + sum(steps[:j])
            y = height - (i + 1) * (high + top + 0.1) + 0.1
            places.append(
                picture.add_axes((x / picture.get_figwidth(), y / height, *_share(picture, wide, high)))
            )
    return picture, places


def _share(picture: "Figure", wide: float, high: float) -> tuple[float, float]:
    return wide / picture.get_figwidth(), high / picture.get_figheight()


def draw(
    axes: "Axes", one: Matrix, source: Sequence[str], target: Sequence[str], ramp: str, most: float,
    unknown: Collection[int] = (),
) -> "ScalarMappable":  # fmt: skip
    """One matrix with its words: source across, target down. A weight of exactly 0 has no cell.

    On the ramp from black to white, 0 is black, as the lectures draw it.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    signed = one.signed and ramp == "even"
    shown = one.weights if ramp == "black_to_white" else np.ma.masked_equal(one.weights, 0)
    colours = ScalarMappable(Normalize(-most if signed else 0, most), shades(ramp, signed))
    axes.imshow(colours.to_rgba(shown, bytes=True), interpolation="nearest")  # bytes: four times as fast
    side = cell(len(target), len(source))
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=8 if side >= 0.26 else 6)
    ticks(axes, "x", source, rotation=90)
    for tick, label in enumerate(axes.get_xticklabels()):
        if tick * _every(len(source)) in unknown:
            label.set_bbox(DOTTED)
    ticks(axes, "y", target)
    above = 1 + (room(source) + 0.02) / (side * len(target))  # finding it automatically is slow
    axes.set_title(cropped(one.name, 60), fontsize=9, parse_math=False, y=above, va="bottom", **font())
    axes.spines[:].set_color("#c3cad1")
    whole = axes.get_figure(root=True)
    if max(one.weights.shape) <= NUMBERS and whole is not None and len(whole.axes) <= 4:
        numbers(axes, one.weights, colours)
    return colours


def outline(j: int, i: int, colour: str) -> "Rectangle":
    """A box around the cell of column j and row i."""
    from matplotlib.patches import Rectangle

    return Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor=colour, linewidth=1.5)


def ticks(axes: "Axes", axis: str, labels: Sequence[str], **how: Any) -> None:
    """Words beside the cells; only every k-th, if all would overlap."""
    places = range(0, len(labels), _every(len(labels)))
    names = [cropped(labels[i]) for i in places]
    put = axes.set_xticks if axis == "x" else axes.set_yticks
    put(list(places), names, parse_math=False, color=INK, **font(), **how)


def _every(size: int) -> int:
    return -(-size // LONGEST)


def numbers(axes: "Axes", p: Array, colours: "ScalarMappable") -> None:
    """Each weight that is not 0, in its cell, dark on light or light on dark."""
    for (i, j), found in np.ndenumerate(p):
        if weight := float(found):
            red, green, blue, _ = colours.to_rgba(np.array(weight))
            dark = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 < 0.18
            text = axes.text(j, i, short(weight), ha="center", va="center", fontsize=6.5)
            text.set(color="w" if dark else "k", in_layout=False)  # laying out a thousand of them is slow


def short(weight: float) -> str:
    """Two decimals without the leading 0; nothing if they would be 0: the colour says that it is small."""
    text = f"{abs(weight):.2f}"
    if text == "0.00":
        return ""
    return ("−" if weight < 0 else "") + text.removeprefix("0").removesuffix(".00")


def bar(picture: "Figure", colours: "ScalarMappable") -> None:
    """The colour bar, to the right of all matrices."""
    wide, high = picture.get_size_inches()
    tall = min(1.6, high * 0.6)
    axes = picture.add_axes(((wide - BAR + 0.1) / wide, (high - tall) / 2 / high, 0.1 / wide, tall / high))
    picture.colorbar(colours, cax=axes)
    axes.tick_params(labelsize=7, length=2)
