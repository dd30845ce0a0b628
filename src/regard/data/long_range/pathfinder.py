"""Pathfinder: are two dots in a picture the ends of one dashed curve?

Pictures of 24 × 24 pixels (576 tokens of 4 shades) are drawn with two long dashed curves and short pieces
besides. A dot stands at the end of one curve, another at its other end or at an end of the other curve.

Linsley et al. (2018), "Learning long-range spatial dependencies with horizontal gated recurrent units",
arXiv:1805.08315; as a sequence: Tay et al. (2020), arXiv:2011.04006, §2.2.5.
"""

import math
from pathlib import Path
from random import Random

from regard.data.long_range.long_task import FIRST, LongExample, LongTask

SIDE, DASH, GAP, STEPS = 24, 3, 1, 22
EMPTY, LINE, DOT = 0, 2, 3
KEPT = 256  # drawings


def _curve(random: Random, steps: int, taken: set[tuple[int, int]]) -> list[tuple[int, int]] | None:
    """Pixels along a smooth curve; None if it leaves the picture or comes near what is taken."""
    y, x = random.uniform(2, SIDE - 3), random.uniform(2, SIDE - 3)
    angle = random.uniform(0, 2 * math.pi)
    found = []
    for _ in range(steps):
        angle += random.gauss(0, 0.25)
        y, x = y + math.sin(angle), x + math.cos(angle)
        at = round(y), round(x)
        if not (1 <= y < SIDE - 2 and 1 <= x < SIDE - 2) or at in taken:
            return None
        found.append(at)
    return found


def _curves(random: Random) -> list[list[tuple[int, int]]]:
    """Two long curves and perhaps short ones, turned and mirrored at random.

    Finding curves that keep apart takes long, so each drawing serves eight times: a stream of random numbers
    has its own drawings, so that those of training and test are never the same.
    """
    drawn = vars(random).setdefault("drawn_curves", [])
    if len(drawn) < KEPT or random.random() < 1 / 8:
        drawn.append(_drawing(random))
        del drawn[: max(0, len(drawn) - KEPT)]
    curves = drawn[random.randrange(len(drawn))]
    turn, flip, mirror = (random.random() < 0.5 for _ in range(3))
    last = SIDE - 1
    return [
        [
            (last - b if flip else b, last - a if mirror else a)
            for b, a in (((x, y) if turn else (y, x)) for y, x in curve)
        ]
        for curve in curves
    ]


def _drawing(random: Random) -> list[list[tuple[int, int]]]:
    curves: list[list[tuple[int, int]]] = []
    while len(curves) < 2:
        curves, taken = [], set[tuple[int, int]]()
        for steps in (STEPS, STEPS, 6, 6):
            for _ in range(60):
                made = _curve(random, steps, taken)
                if made is not None:
                    curves.append(made)
                    taken |= {(y + v, x + u) for y, x in made for v in range(-2, 3) for u in range(-2, 3)}
                    break
            else:
                break
    return curves


def generate(random: Random) -> LongExample:
    """A picture, and whether its dots are connected."""
    curves = _curves(random)
    picture = [[EMPTY] * SIDE for _ in range(SIDE)]
    for curve in curves:
        for at, (y, x) in enumerate(curve):
            if at % (DASH + GAP) < DASH:
                picture[y][x] = LINE
    label = random.randrange(2)
    one, other = (curves[0], curves[1]) if random.random() < 0.5 else (curves[1], curves[0])
    ends = [one[0], one[-1] if label else random.choice((other[0], other[-1]))]
    for y, x in ends:
        for v in range(y - 1, y + 2):
            for u in range(x - 1, x + 2):
                picture[v][u] = DOT
    return LongExample([FIRST + shade for row in picture for shade in row], label)


def read(file: Path) -> list[LongExample]:
    """There is no file of it: pictures are drawn."""
    raise ValueError(f"{file}: the pictures of pathfinder are drawn; leave out --data pathfinder=….")


pathfinder = LongTask(
    "pathfinder", "Whether two dots are the ends of one curve.", FIRST + 4, 2, generate, read, chance=0.5
)
