"""Texts whose words stand out by their weight: what `words` and `steps` share, and how paper shows it.

A word is on the colour of its weight, with a bar below that is longer the more weight it has; both follow the
rule of `ramps.place`. Weights below 0 have other colours, and so have their bars.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.views.base_view import UNKNOWN, MatrixView
from regard.views.picture import BELOW, COLOUR, DOTTED, FAINT, INK, figure, font, measured, shades
from regard.views.ramps import EQUAL, place
from regard.views.shown_text import cropped, right_to_left
from regard.views.weight_matrices import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

LINE, GAP = 0.26, 0.06  # inches of a line, and between words
WIDTH, HEADING = 6.5, 1.7  # inches of the text, and of what is before it
LEAST = 5.4  # inches that the legend, a title and a caption need
STRIP = 1.3  # inches of the ramp in the legend


@dataclass(frozen=True, eq=False, kw_only=True)
class TextView(MatrixView):
    """A view of the source as text, once for each row of weights.

    Weights between 0 and 1 are coloured as they are. `shares` are scores of any size: each is coloured by its
    part of the sum of its row, signs aside. What is not between 0 and 1 is taken for scores.
    """

    shares: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        outside = any(m.signed or m.weights.max() > 1 + 1e-6 for m in self.matrices)
        object.__setattr__(self, "shares", self.shares or outside)
        object.__setattr__(self, "most", 1.0)

    def content(self) -> dict[str, Any]:
        return {**super().content(), "shares": self.shares}

    def legend_note(self) -> str:
        return ""  # the legend of the text says it

    def passages(self, p: Array, headings: Sequence[str]) -> "Figure":
        """The text once per row of p (m, n), its heading on the left, and a legend below."""
        placed, n = laid(self.source), len(self.source)
        totals = abs(p).sum(-1, keepdims=True) if self.shares else np.ones((len(p), 1))
        wide = max(word.x + word.width for word in placed)
        high = (max(word.line for word in placed) + 1) * LINE + 0.12
        left = HEADING if any(headings) else 0.1
        size = max(left + wide + 0.1, LEAST), len(p) * high + 0.5 + 0.22 * bool(self.unknown)
        picture = figure(*size, layout=None)
        axes = picture.add_axes((0, 0, 1, 1))  # a unit is an inch
        axes.set(xlim=(0, size[0]), ylim=(size[1], 0))
        axes.axis("off")
        signed = bool((p < 0).any())
        ramp = shades(signed=signed)
        for i, heading in enumerate(headings):
            top = i * high + 0.1
            _write(axes, left - 0.15, top + LINE / 2, heading, ha="right", color=FAINT)
            shares = (p[i] / (totals[i] or 1)).tolist()
            for j, (word, share) in enumerate(zip(placed, shares, strict=True)):
                t = place(share, n) * (1 if share > 0 else -1)
                _word(axes, word, t, left, top + word.line * LINE, ramp, j in self.unknown)
        self._legend(axes, 0.1, len(p) * high + 0.2, ramp, signed)
        return picture

    def _legend(self, axes: "Axes", x: float, y: float, ramp: "Colormap", signed: bool) -> None:
        """The ramp from 0 to 1 with a line at an equal share, and the box of unknown words."""

        def say(text: str) -> None:
            nonlocal x
            _write(axes, x, y + 0.06, text, fontsize=7, ha="left", color=FAINT)
            x += measured(text, 7) + 0.08

        least = -1.0 if signed else 0.0
        say("−1" if signed else "0")
        axes.imshow(ramp(np.linspace(0, 1, 128))[None], extent=(x, x + STRIP, y + 0.12, y), aspect="auto")
        for t in (EQUAL, -EQUAL) if signed else (EQUAL,):
            axes.plot([x + STRIP * (t - least) / (1 - least)] * 2, [y - 0.04, y + 0.16], color=INK, lw=1)
        x += STRIP + 0.08
        say("1")
        n, what = len(self.source), "of the scores" if self.shares else "of the weight"
        say(f"share {what}; the line is an equal share, 1/{n:,} = {1 / n:.2g}")
        if self.unknown:
            _write(axes, 0.13, y + 0.3, "word", fontsize=7, ha="left", color=FAINT, bbox=DOTTED)
            x, y = 0.25 + measured("word", 7), y + 0.24
            say(UNKNOWN)


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
        width = max(p.x + p.width for p in placed)
        return [Placed(p.text, width - p.x - p.width, p.line, p.width) for p in placed]
    return placed


def _word(
    axes: "Axes", word: Placed, t: float, left: float, top: float, ramp: "Colormap", unknown: bool
) -> None:
    from matplotlib.patches import Rectangle

    ink = INK
    if t:
        red, green, blue, _ = colour = _shade(ramp, t)
        ink = "w" if 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 < 0.18 else "k"
        axes.add_patch(Rectangle((left + word.x, top + 0.01), word.width, LINE - 0.07, color=colour, lw=0))
        bar = (left + word.x, top + LINE - 0.05), word.width * abs(t), 0.03
        axes.add_patch(Rectangle(*bar, color=COLOUR if t > 0 else BELOW, lw=0))
    _write(axes, left + word.x + word.width / 2, top + LINE / 2 - 0.03, word.text, ha="center", color=ink)
    if unknown:
        box = (left + word.x - 0.02, top - 0.01), word.width + 0.04, LINE - 0.03
        axes.add_patch(Rectangle(*box, fill=False, ec=INK, ls=DOTTED["ls"], lw=DOTTED["lw"]))


def _shade(ramp: "Colormap", t: float) -> tuple[float, float, float, float]:
    return ramp(t if ramp.N == 256 else (t + 1) / 2)


def _write(axes: "Axes", x: float, y: float, text: str, **how: Any) -> None:
    axes.text(x, y, text, **{"va": "center", "fontsize": 9, "parse_math": False, **font(), **how})
