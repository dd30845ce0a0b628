"""Problems whose answer is a sequence of positions of the input: sorting, convex hull, Delaunay, travelling
salesman.

    sorting       numbers; their positions from the smallest to the largest
    convex_hull   points in the unit square; the corners of their hull, counter-clockwise from the lowest
    delaunay      points; the triangles of their Delaunay triangulation, three positions each,
                  counter-clockwise from the lowest, triangles from the lowest centre to the highest
    salesman      points; the shortest closed tour, counter-clockwise from the lowest point, exact by dynamic
                  programming over subsets (Held & Karp 1962), which is why `most` is small

Positions are counted from 0. An answer does not depend on the order of the points.

Vinyals, Fortunato & Jaitly (2015), arXiv:1506.03134, §3.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Delaunay

from regard.core.registry import Table
from regard.data.corpora.split import HELD_OUT, Split
from regard.data.points import PointSet

Points = NDArray[np.float64]  # (n, coordinates)
BLOCK = 256  # problems that are drawn together
LARGEST_TOUR = 16  # points


@dataclass(frozen=True)
class Geometry:
    """A kind of problem; calling it gives its examples, the same for the same seed and split."""

    name: str
    says: str
    solve: Callable[[NDArray[np.float64]], list[list[int]]]  # of problems (b, n, coordinates) alike in size
    coordinates: int = 2
    least: int = 1  # points
    largest: int = 10_000

    def __call__(self, seed: int, split: Split, least: int, most: int) -> Iterator[PointSet]:
        """Problems of `least` to `most` points, endlessly."""
        chance = np.random.default_rng([seed, list(HELD_OUT).index(split)])
        while True:
            sizes = chance.integers(least, most + 1, BLOCK)
            drawn = [chance.random((size, self.coordinates)).astype(np.float32) for size in sizes]
            found: list[PointSet | None] = [None] * BLOCK
            for size in np.unique(sizes):
                some = np.flatnonzero(sizes == size)
                answers = self.solve(np.stack([drawn[i] for i in some]).astype(np.float64))
                for i, answer in zip(some, answers, strict=True):
                    found[i] = PointSet(drawn[i].tolist(), answer)
            yield from (one for one in found if one is not None)


def lowest(points: Points) -> int:
    """The position of the lowest point; of several, the leftmost."""
    return int(np.lexsort((points[:, 0], points[:, 1]))[0])


def area(polygon: Points) -> float:
    """The signed area of a polygon, positive if it is counter-clockwise."""
    x, y = polygon[:, 0], polygon[:, 1]
    return float(0.5 * (x * np.roll(y, -1) - np.roll(x, -1) * y).sum())


def sorted_positions(problems: NDArray[np.float64]) -> list[list[int]]:
    """Positions from the smallest number to the largest."""
    order: list[list[int]] = problems[..., 0].argsort(-1, kind="stable").tolist()
    return order


def hulls(problems: NDArray[np.float64]) -> list[list[int]]:
    """The corners of each convex hull: Andrew's monotone chain, from the lowest point on."""
    return [_hull(points) for points in problems]


def _hull(points: Points) -> list[int]:
    order = np.lexsort((points[:, 1], points[:, 0])).tolist()
    if len(order) < 3:
        return _from_lowest(points, order)
    at = points.tolist()

    def half(order: list[int]) -> list[int]:
        chain: list[int] = []
        for i in order:
            x, y = at[i]
            while len(chain) > 1:
                (ax, ay), (bx, by) = at[chain[-2]], at[chain[-1]]
                if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0:
                    break
                chain.pop()
            chain.append(i)
        return chain[:-1]

    return _from_lowest(points, half(order) + half(order[::-1]))


def _from_lowest(points: Points, cycle: list[int]) -> list[int]:
    """A cycle of positions, begun at its lowest point."""
    first = lowest(points[cycle])
    return cycle[first:] + cycle[:first]


def triangulations(problems: NDArray[np.float64]) -> list[list[int]]:
    """The triangles of each Delaunay triangulation, one after the other."""
    return [_triangles(points) for points in problems]


def _triangles(points: Points) -> list[int]:
    found = []
    for corners in Delaunay(points).simplices.tolist():
        corners = corners if area(points[corners]) > 0 else corners[::-1]
        found.append(_from_lowest(points, corners))
    found.sort(key=lambda corners: tuple(points[corners].mean(0)[::-1]))
    return [corner for corners in found for corner in corners]


def tours(problems: NDArray[np.float64]) -> list[list[int]]:
    """The shortest closed tour of each problem."""
    b, n = problems.shape[:2]
    if n < 4:
        return [_tour(points, list(range(n))) for points in problems]
    distance = np.linalg.norm(problems[:, :, None] - problems[:, None], axis=-1)  # (b, n, n)
    m = n - 1  # the last point is where tours begin
    cost = np.full((b, 1 << m, m), np.inf)
    before = np.zeros((1 << m, m, b), dtype=np.int8)
    for j in range(m):
        cost[:, 1 << j, j] = distance[:, m, j]
    for subset in range(1, 1 << m):
        inside = [j for j in range(m) if subset >> j & 1]
        if len(inside) < 2:
            continue
        for j in inside:
            ways = cost[:, subset ^ (1 << j)] + distance[:, :m, j]  # (b, m): by the point before j
            before[subset, j] = best = ways.argmin(-1)
            cost[:, subset, j] = ways[np.arange(b), best]
    last = (cost[:, -1] + distance[:, :m, m]).argmin(-1)
    found = []
    for i in range(b):
        subset, j, tour = (1 << m) - 1, int(last[i]), [m]
        while True:
            tour.append(j)
            rest = subset ^ (1 << j)
            if not rest:
                break
            subset, j = rest, int(before[subset, j, i])
        found.append(_tour(problems[i], tour))
    return found


def _tour(points: Points, tour: list[int]) -> list[int]:
    """A closed tour, counter-clockwise from the lowest point."""
    tour = tour if area(points[tour]) >= 0 else tour[::-1]
    return _from_lowest(points, tour)


def length(points: Points, tour: list[int]) -> float:
    """The length of a closed tour."""
    path = points[[*tour, tour[0]]]
    return float(np.linalg.norm(np.diff(path, axis=0), axis=-1).sum())


POINTED: Table[Geometry] = Table("problem", {})
for _kind in (
    Geometry("sorting", "Numbers, from the smallest to the largest.", sorted_positions, coordinates=1),
    Geometry("convex_hull", "Points, and the corners of their convex hull.", hulls, least=3),
    Geometry("delaunay", "Points, and the triangles of the Delaunay triangulation.", triangulations, least=3),
    Geometry("salesman", "Points, and the shortest closed tour.", tours, least=3, largest=LARGEST_TOUR),
):
    POINTED.enter(_kind.name, _kind)


def as_array(points: Any) -> Points:
    """Points as an array (n, coordinates)."""
    return np.asarray(points, dtype=np.float64)
