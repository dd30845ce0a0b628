"""Generated problems against definitions by enumeration; files of points."""

import gzip
import json
from itertools import permutations

import numpy as np
import pytest

from regard.data.corpora.geometry import POINTED, area, hulls, length, tours, triangulations
from regard.data.points import PointSet, located_points, parsed, written
from regard.data.text import DataError
from regard.tasks.point_scores import crosses, point_scores

CHANCE = np.random.default_rng(0)


def left(a, b, c):
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def test_a_corner_of_the_hull_has_all_points_on_one_side_of_its_edges():
    for points in CHANCE.random((40, 8, 2)):
        (hull,) = hulls(points[None])
        edges = {
            (i, j)
            for i, j in permutations(range(8), 2)
            if all(left(points[i], points[j], points[k]) > 0 for k in range(8) if k not in (i, j))
        }
        assert set(zip(hull, hull[1:] + hull[:1], strict=True)) == edges
        assert hull[0] == points[:, 1].argmin() and area(points[hull]) > 0


def test_a_tour_is_the_shortest_of_all():
    for points in CHANCE.random((20, 6, 2)):
        (tour,) = tours(points[None])
        shortest = min(length(points, [0, *rest]) for rest in permutations(range(1, 6)))
        assert sorted(tour) == list(range(6)) and length(points, tour) == pytest.approx(shortest)
        assert tour[0] == points[:, 1].argmin() and area(points[tour]) > 0


def test_no_point_is_inside_the_circle_of_a_delaunay_triangle():
    for points in CHANCE.random((20, 7, 2)):
        (found,) = triangulations(points[None])
        for a, b, c in zip(found[::3], found[1::3], found[2::3], strict=True):
            assert left(points[a], points[b], points[c]) > 0
            for d in set(range(7)) - {a, b, c}:
                rows = [[*(points[i] - points[d]), ((points[i] - points[d]) ** 2).sum()] for i in (a, b, c)]
                assert np.linalg.det(np.array(rows)) <= 1e-12


@pytest.mark.parametrize("name", POINTED)
def test_problems_are_the_same_for_the_same_seed_and_of_the_sizes_asked_for(name):
    def some(seed, split):
        makes = POINTED[name](seed, split, 4, 6)
        return [next(makes) for _ in range(30)]

    one = some(1, "train")
    assert one == some(1, "train") and one != some(2, "train") and one != some(1, "valid")
    assert {len(problem.points) for problem in one} == {4, 5, 6}
    figures = point_scores(name, one, [problem.answer for problem in one])
    assert figures["accuracy"] == 1.0 and all(value == pytest.approx(1) for value in figures.values())


def test_scores_of_wrong_answers():
    square = PointSet([[0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0.5]], [0, 1, 2, 3])
    assert point_scores("convex_hull", [square], [[2, 3, 0, 1]]) == {"accuracy": 1.0, "area": 1.0}
    assert point_scores("convex_hull", [square], [[0, 1, 2]]) == {"accuracy": 0.0, "area": 0.5}
    assert point_scores("convex_hull", [square], [[0, 2, 1, 3]])["area"] == 0.0  # its sides cross
    assert crosses(np.array([[0, 0], [1, 1], [1, 0], [0, 1]]))
    tour = PointSet([[0, 0], [1, 0], [1, 1], [0, 1]], [0, 1, 2, 3])
    assert point_scores("salesman", [tour], [[3, 2, 1, 0]])["accuracy"] == 1.0
    assert point_scores("salesman", [tour], [[0, 2, 1, 3]])["ratio"] == pytest.approx((2 + 2 * 2**0.5) / 4)
    assert point_scores(None, [tour], [[0, 1, 3, 2]]) == {"accuracy": 0.0, "positions": 0.5}
    assert point_scores("delaunay", [PointSet(tour.points, [0, 1, 2, 0, 2, 3])], [[2, 0, 1, 0]]) == {
        "accuracy": 0.0,
        "triangles": 0.5,
    }


def test_files_of_points(tmp_path):
    file = tmp_path / "hulls.txt.gz"
    file.write_bytes(gzip.compress(b"0.1 0.2 0.5 0.9 0.7 0.1 output 1 3 2 1\n"))
    ((where, one),) = located_points(file)
    assert one == PointSet([[0.1, 0.2], [0.5, 0.9], [0.7, 0.1]], [0, 2, 1]) and where.endswith("line 1")
    lines = tmp_path / "sort.jsonl"
    lines.write_text(json.dumps({"points": [3, 1, 2.5], "answer": [1, 2, 0]}))
    assert [one for _, one in located_points(lines)] == [PointSet([[3.0], [1.0], [2.5]], [1, 2, 0])]
    assert parsed(written([[0.25, 0.5], [1, 2]])) == [[0.25, 0.5], [1, 2]] and parsed("") == []


@pytest.mark.parametrize(
    "line",
    [
        '{"points": [[1, 2]]}',
        '{"points": [[1, 2], [1]], "answer": [0]}',
        '{"points": [[1, 2]], "answer": [1]}',
        '{"points": [[1, 2]], "answer": []}',
        '{"points": [["a", 2]], "answer": [0]}',
        '{"points": [[NaN, 2]], "answer": [0]}',
        '{"points": [], "answer": [0]}',
        "[3]",
    ],
)
def test_bad_files_are_one_sentence(tmp_path, line):
    file = tmp_path / "bad.jsonl"
    file.write_text(line)
    with pytest.raises(DataError, match=r"line 1: .*\.$"):
        list(located_points(file))
    with pytest.raises(DataError, match="is no number"):
        parsed("0.1,x")
    with pytest.raises(DataError, match="same number of coordinates"):
        parsed("0.1,0.2 0.3")
