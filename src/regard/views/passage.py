"""A passage on paper: words in lines, each on the colour of its weight, with a bar below as long as that.

Weights below 0 have other colours, and so have their bars.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.views.picture import BELOW, COLOUR, FAINT, INK, figure, font, measured, shades
from regard.views.shown_text import cropped, right_to_left
from regard.views.weight_matrices import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

LINE, GAP, WIDTH, HEADING = (
    0.26,
    0.06,
    6.5,
    1.7,
)  # inches: a line, between words, of the text, of what is before it


@dataclass(frozen=True)
class Placed:
    """A word and its position: inches from the left, lines from the top."""

    text: str
    x: float
    line: int
    width: float


def laid(tokens: Sequence[str], width: float = WIDTH) -> list[Placed]:
    """Words one after the other, in as many lines as it takes; Hebrew and Arabic from the right."""
    placed, x, line = [], 0.0, 0
    for token in tokens:
        text = cropped(token, 40)
        needs = measured(text) + GAP
        if x and x + needs > width:
            x, line = 0.0, line + 1
        placed.append(Placed(text, x, line, needs))
        x += needs + GAP
    if right_to_left(tokens):
        width = width if line else x
        return [Placed(p.text, width - p.x - p.width, p.line, p.width) for p in placed]
    return placed


def passages(tokens: Sequence[str], p: Array, headings: Sequence[str], most: float) -> "Figure":
    """The same tokens once per row of p (m, n), its heading on the left; most is the darkest weight."""
    placed = laid(tokens)
    wide = WIDTH if placed[-1].line else max(p.x + p.width for p in placed)
    high = (placed[-1].line + 1) * LINE + 0.12
    left = HEADING if any(headings) else 0.1
    picture = figure(left + wide + 0.1, len(p) * high + 0.2)
    axes = picture.add_subplot()
    axes.set(xlim=(0, left + wide), ylim=(len(p) * high, 0))
    axes.axis("off")
    ramp = shades(signed=bool((p < 0).any()))
    for i, heading in enumerate(headings):
        how: dict[str, Any] = {"va": "center", "fontsize": 9, "parse_math": False, **font()}
        axes.text(left - 0.15, i * high + LINE / 2, heading, ha="right", color=FAINT, **how)
        for word, weight in zip(placed, p[i].tolist(), strict=True):
            _word(axes, word, weight, left, i * high + word.line * LINE, most, ramp)
    return picture


def _word(
    axes: "Axes", word: Placed, weight: float, left: float, top: float, most: float, ramp: "Colormap"
) -> None:
    from matplotlib.patches import Rectangle

    ink = INK
    if weight:
        share = weight / most
        red, green, blue, _ = colour = ramp(share if ramp.N == 256 else (share + 1) / 2)
        ink = "w" if 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 < 0.18 else "k"
        axes.add_patch(Rectangle((left + word.x, top + 0.01), word.width, LINE - 0.07, color=colour, lw=0))
        bar = (left + word.x, top + LINE - 0.05), word.width * abs(share), 0.03
        axes.add_patch(Rectangle(*bar, color=COLOUR if weight > 0 else BELOW, lw=0))
    how: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 9, "color": ink, "parse_math": False}
    axes.text(left + word.x + word.width / 2, top + LINE / 2 - 0.03, word.text, **how, **font())
