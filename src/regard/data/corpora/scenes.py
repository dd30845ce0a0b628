"""Scenes: coloured shapes on a grey ground, with a caption or a question, and the box of every shape.

One to three shapes (three or four for questions), no two of the same colour and form, stand in different
cells of a plane of 3 × 3 cells, 8 pixels each. The caption names them in the order of reading:

    a red circle left of a blue square above a green cross

A question is about the only shape of a colour or form, or, in half of them, about the only one that stands
left of, right of, above or below another in its row or column:

    what shape is red ?        what colour is the circle ?        what shape is left of the red circle ?
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from regard.data.corpora.split import Split
from regard.data.images import Box, Pixels

CELLS, CELL = 3, 8
SIDE = CELLS * CELL
COLOURS = {
    "red": (220, 40, 40), "green": (40, 170, 60), "blue": (50, 80, 230), "yellow": (235, 215, 50),
    "purple": (160, 50, 190), "white": (245, 245, 245),
}  # fmt: skip
FORMS = ("circle", "square", "triangle", "cross")
ASIDE = {"left of": (0, -1), "right of": (0, 1), "above": (-1, 0), "below": (1, 0)}  # rows, columns


class Shape(NamedTuple):
    """One shape: what it is, its cell, and its box in pixels."""

    colour: str
    form: str
    row: int
    column: int
    box: Box

    @property
    def said(self) -> str:
        """Its name: "red circle"."""
        return f"{self.colour} {self.form}"


@dataclass(frozen=True, eq=False)
class Captioned:
    """A picture and its caption; `boxes` has for each word the box of what it names, or None."""

    pixels: Pixels
    caption: str
    boxes: tuple[Box | None, ...] = ()


@dataclass(frozen=True, eq=False)
class Asked:
    """A picture, a question about it, and the answer; `box` is that of the shape that the answer is about."""

    pixels: Pixels
    question: str
    label: str
    box: Box | None = None

    @property
    def second(self) -> str:
        """The question."""
        return self.question


def captioned(seed: int, split: Split) -> Iterator[Captioned]:
    """Pictures with captions, endlessly."""
    chance = _chance(seed, split)
    while True:
        pixels, shapes = _scene(chance, int(chance.integers(1, 4)))
        words: list[str] = []
        boxes: list[Box | None] = []
        for before, shape in zip([None, *shapes], shapes, strict=False):
            if before is not None:
                between = "left of" if before.row == shape.row else "above"
                words += between.split()
                boxes += [None] * len(between.split())
            words += ["a", shape.colour, shape.form]
            boxes += [None, shape.box, shape.box]
        yield Captioned(pixels, " ".join(words), tuple(boxes))


def asked(seed: int, split: Split) -> Iterator[Asked]:
    """Pictures with questions, endlessly."""
    chance = _chance(seed, split)
    while True:
        pixels, shapes = _scene(chance, int(chance.integers(3, 5)))
        of_form = bool(chance.integers(2))
        if chance.integers(2):
            told = [shape.colour if of_form else shape.form for shape in shapes]
            alone = [shape for shape, one in zip(shapes, told, strict=True) if told.count(one) == 1]
            if alone:
                other = alone[chance.integers(len(alone))]
                question = (
                    f"what shape is {other.colour} ?" if of_form else f"what colour is the {other.form} ?"
                )
                yield Asked(pixels, question, other.form if of_form else other.colour, other.box)
            continue
        known = [
            (relation, shape, there[0])
            for shape in shapes
            for relation, aside in ASIDE.items()
            if len(there := [other for other in shapes if _is_aside(other, shape, aside)]) == 1
        ]
        if not known:
            continue
        relation, shape, other = known[chance.integers(len(known))]
        question = f"what {'shape' if of_form else 'colour'} is {relation} the {shape.said} ?"
        yield Asked(pixels, question, other.form if of_form else other.colour, other.box)


def _is_aside(other: Shape, shape: Shape, aside: tuple[int, int]) -> bool:
    rows, columns = other.row - shape.row, other.column - shape.column
    return (rows * aside[0] > 0 and columns == 0) if aside[0] else (columns * aside[1] > 0 and rows == 0)


def _chance(seed: int, split: Split) -> np.random.Generator:
    return np.random.default_rng([{"train": 0, "valid": 1, "test": 2}[split], seed])


def _scene(chance: np.random.Generator, count: int) -> tuple[Pixels, list[Shape]]:
    """A picture of so many shapes, and these in the order of reading."""
    ground = chance.integers(90, 130)
    pixels = np.full((SIDE, SIDE, 3), ground, dtype=np.float64)
    cells = sorted(chance.choice(CELLS * CELLS, count, replace=False).tolist())
    kinds = chance.choice(len(COLOURS) * len(FORMS), count, replace=False).tolist()
    shapes = []
    for cell, kind in zip(cells, kinds, strict=True):
        (row, column), (colour, form) = divmod(cell, CELLS), divmod(kind, len(FORMS))
        size = int(chance.integers(6, 8))
        top, left = (place * CELL + int(chance.integers(CELL - size + 1)) for place in (row, column))
        name = list(COLOURS)[colour]
        pixels[top : top + size, left : left + size][_form(FORMS[form], size)] = COLOURS[name]
        shapes.append(Shape(name, FORMS[form], row, column, (top, left, top + size, left + size)))
    noisy = pixels + chance.normal(0, 6, pixels.shape)
    return np.ascontiguousarray(noisy.clip(0, 255).astype(np.uint8).transpose(2, 0, 1)), shapes


@cache
def _form(form: str, size: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """A shape (size, size), True where it is."""
    down, across = (np.mgrid[:size, :size] + 0.5) / size - 0.5
    found = {
        "circle": np.hypot(down, across) < 0.5,
        "square": np.maximum(abs(down), abs(across)) < 0.46,
        "triangle": abs(across) < (down + 0.5) / 2,
        "cross": (abs(down) < 0.17) | (abs(across) < 0.17),
    }[form]
    return np.asarray(found)
