"""How good sequences of positions are, for each kind of problem.

    sorting       accuracy: the whole sequence is right; positions: the share of places that are
    convex_hull   accuracy: the same corners in the same order, from wherever it begins; area: that of the
                  polygon over that of the hull, 0 if its sides cross (Vinyals et al. 2015, §4.2)
    delaunay      accuracy: the same triangles; triangles: the share of the right ones that were found
    salesman      accuracy: a tour as short as the shortest; ratio: its length over the shortest

Other problems: the whole sequence is right.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from regard.data.corpora.geometry import Points, area, as_array, length
from regard.data.points import PointSet


def point_scores(
    kind: str | None, problems: Sequence[PointSet], said: Sequence[Sequence[int]]
) -> dict[str, float]:
    """Means over all problems, by name."""
    measured = [
        _one(kind, as_array(problem.points), list(problem.answer), list(answer))
        for problem, answer in zip(problems, said, strict=True)
    ]
    names = measured[0] if measured else {"accuracy": 0.0}
    return {name: float(np.mean([one[name] for one in measured])) if measured else 0.0 for name in names}


def _one(kind: str | None, points: Points, right: list[int], said: list[int]) -> dict[str, float]:
    if kind == "convex_hull":
        whole = abs(area(points[right]))
        found = abs(area(points[said])) if len(said) > 2 and not crosses(points[said]) else 0.0
        same = turned(said) == turned(right)
        return {"accuracy": float(same), "area": min(found / whole, 1.0) if whole else float(same)}
    if kind == "delaunay":
        wanted, got = triangles(right), triangles(said)
        return {
            "accuracy": float(wanted == got and len(said) == len(right)),
            "triangles": len(wanted & got) / len(wanted),
        }
    if kind == "salesman":
        complete = sorted(said) == list(range(len(points)))
        ratio = length(points, said) / length(points, right) if complete else np.inf
        return {"accuracy": float(complete and ratio <= 1 + 1e-9), "ratio": float(ratio)}
    places = sum(a == b for a, b in zip(said, right, strict=False)) / max(len(said), len(right), 1)
    return {"accuracy": float(said == right), "positions": places}


def turned(cycle: list[int]) -> list[int]:
    """A cycle of positions, from its smallest on."""
    first = cycle.index(min(cycle)) if cycle else 0
    return cycle[first:] + cycle[:first]


def triangles(said: list[int]) -> set[frozenset[int]]:
    """The triangles of positions three by three; an unfinished one is none."""
    return {
        frozenset(said[i : i + 3])
        for i in range(0, len(said) - len(said) % 3, 3)
        if len(set(said[i : i + 3])) == 3
    }


def crosses(polygon: Points) -> bool:
    """Whether two sides of a polygon cross."""
    n = len(polygon)
    ends = [(polygon[i], polygon[(i + 1) % n]) for i in range(n)]

    def side(a: Points, b: Points, c: Points) -> float:
        return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))

    for i, j in combinations(range(n), 2):
        if j - i in (1, n - 1):
            continue
        (a, b), (c, d) = ends[i], ends[j]
        if side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0:
            return True
    return False
