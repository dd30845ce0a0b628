"""Points and a sequence of positions of them: from files, or from a line that a person types.

    .jsonl   {"points": [[0.1, 0.7], …], "answer": [2, 0, …]}: positions counted from 0; a point may be a
             single number
    .txt     0.1 0.7 0.3 0.2 … output 3 1 … 3: the files of Vinyals et al. (2015), two numbers a point,
             positions counted from 1; a position that closes the cycle is left out

Each also .gz. As text points are written with spaces between them: "0.1,0.7 0.3,0.2", numbers as "0.4 0.1
0.9".
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.segments import split_at_spaces
from regard.data.tables import kind_of, objects
from regard.data.text_lines import DataError, located_lines

OUTPUT = "output"


@dataclass(frozen=True)
class PointSet:
    """n points, and positions of them (from 0): the answer."""

    points: list[list[float]]  # each of the same number of coordinates
    answer: list[int]

    @property
    def coordinates(self) -> int:
        """Numbers of a point."""
        return len(self.points[0])


def located_points(path: str | Path) -> Iterator[tuple[str, PointSet]]:
    """The point sets of a file, each with the place where it stands."""
    if kind_of(path) == ".jsonl":
        for where, entry in objects(path):
            if not isinstance(entry, dict) or not {"points", "answer"} <= entry.keys():
                raise DataError(f'{where}: an object with "points" and "answer" is needed.')
            yield where, PointSet(*_checked(_points(entry["points"], where), entry["answer"], where))
    elif kind_of(path) == ".txt":
        for where, line in located_lines(path):
            if line.strip():
                yield where, _line(line, where)
    else:
        raise DataError(
            f"{path}: points must be in .jsonl, or in .txt as Vinyals et al. have them (.gz too)."
        )


def parsed(text: str) -> list[list[float]]:
    """The points of a line: "0.1,0.7 0.3,0.2"; ValueError if it holds something else."""
    words = [text[a:b] for a, b in split_at_spaces(text)]
    points = [[_number(part, f"point {i}") for part in word.split(",")] for i, word in enumerate(words, 1)]
    if len({len(point) for point in points}) > 1:
        raise DataError("points must have the same number of coordinates, as 0.1,0.7 0.3,0.2.")
    return points


def written(points: Sequence[Sequence[float]]) -> str:
    """Points as a line, to three digits."""
    return " ".join(",".join(f"{x:.3g}" for x in point) for point in points)


def _line(line: str, where: str) -> PointSet:
    before, found, after = line.partition(OUTPUT)
    numbers = [_number(part, where) for part in before.split()]
    if not found or len(numbers) % 2:
        raise DataError(f'{where}: "x y x y … output i j k", two numbers a point, is needed.')
    try:
        answer = [int(part) - 1 for part in after.split()]
    except ValueError:
        raise DataError(f"{where}: positions must be whole numbers; got {after.strip()[:40]!r}.") from None
    if len(answer) > 1 and answer[0] == answer[-1]:
        answer = answer[:-1]
    points = [numbers[i : i + 2] for i in range(0, len(numbers), 2)]
    return PointSet(*_checked(points, answer, where))


def _points(given: Any, where: str) -> list[list[float]]:
    rows = [one if isinstance(one, list) else [one] for one in given] if isinstance(given, list) else [None]
    numbers = all(
        row and all(isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x) for x in row)
        for row in rows
    )
    if not rows or not numbers or len({len(row) for row in rows if row}) != 1:
        raise DataError(f'{where}: "points" must be a list of points, each with as many finite numbers.')
    return [[float(x) for x in row] for row in rows if row]


def _checked(points: list[list[float]], answer: Any, where: str) -> tuple[list[list[float]], list[int]]:
    if not points:
        raise DataError(f"{where}: there are no points.")
    whole = isinstance(answer, list) and all(isinstance(i, int) and not isinstance(i, bool) for i in answer)
    if not whole or not answer:
        raise DataError(f'{where}: "answer" must be a list of positions; got {answer!r:.40}.')
    wrong = [i for i in answer if not 0 <= i < len(points)]
    if wrong:
        raise DataError(f"{where}: position {wrong[0]} is not one of the {len(points)} points.")
    return points, answer


def _number(part: str, where: str) -> float:
    try:
        value = float(part)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{where}: {part[:40]!r} is no number.")
    return value
