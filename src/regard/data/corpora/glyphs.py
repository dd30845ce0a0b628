"""Glyphs in clutter: one of ten glyphs somewhere in a grey picture, among pieces of glyphs and noise.

The glyph, 9 × 9 pixels, stands anywhere in a picture of 32 × 32; its box is known. Pieces of 4 × 4 pixels,
cut from the same glyphs, lie around it, so that no stroke gives the class away.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from regard.data.corpora.split import Split
from regard.data.images import LabelledImage

SIDE, SIZE, PIECE, PIECES = 32, 9, 4, 14  # of a picture, a glyph and a piece, in pixels; pieces in a picture


def _drawn() -> dict[str, NDArray[np.bool_]]:
    """The glyphs (9, 9) by name."""
    down, across = np.mgrid[:SIZE, :SIZE] - SIZE // 2
    radius, far = np.hypot(down, across), np.maximum(abs(down), abs(across))
    plus = (abs(down) < 1) | (abs(across) < 1)
    times = abs(abs(down) - abs(across)) < 1
    return {
        "arrow": (abs(across) < 1) | (abs(abs(across) - (down + 4)) < 1) & (down <= 0),
        "circle": abs(radius - 3.6) < 0.6,
        "cup": (abs(abs(across) - 4) < 1) | (down == 4),
        "diamond": abs(abs(down) + abs(across) - 4) < 1,
        "lines": (abs(down) == 4) | (down == 0),
        "plus": plus,
        "square": far == 4,
        "table": (down == -4) | (abs(abs(across) - 3) < 1),
        "times": times,
        "triangle": ((down == 4) | (abs(2 * abs(across) - (down + 4)) < 1.5)) & (abs(across) <= 4),
    }


GLYPHS = _drawn()


def glyphs(seed: int, split: Split) -> Iterator[LabelledImage]:
    """Pictures with one glyph each, endlessly."""
    chance = np.random.default_rng([{"train": 0, "valid": 1, "test": 2}[split], seed])
    names = list(GLYPHS)
    while True:
        label = names[chance.integers(len(names))]
        ink = np.zeros((SIDE, SIDE))
        for _ in range(PIECES):
            whole = GLYPHS[names[chance.integers(len(names))]]
            (i, j), (top, left) = (
                chance.integers(SIZE - PIECE + 1, size=2),
                chance.integers(SIDE - PIECE + 1, size=2),
            )
            ink[top : top + PIECE, left : left + PIECE] = whole[i : i + PIECE, j : j + PIECE]
        top, left = chance.integers(SIDE - SIZE + 1, size=2).tolist()
        ink[top : top + SIZE, left : left + SIZE] = GLYPHS[label]
        shade = chance.uniform(0.55, 1) * ink + chance.normal(0.12, 0.08, ink.shape)
        pixels = (255 * shade.clip(0, 1)).astype(np.uint8)[None]
        yield LabelledImage(pixels, label, (top, left, top + SIZE, left + SIZE))
