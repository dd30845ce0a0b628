"""Viterbi against all assignments."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.kernels.chains.viterbi import best, viterbi

INF = float("inf")


def run(scores, transitions):
    scores, transitions = np.asarray(scores, float), np.asarray(transitions, float)
    n, s = scores.shape
    path = np.full(n, 7)
    total = viterbi(scores, transitions, path, np.empty((2, s)), np.empty((n, s), np.int64))
    return total, path.tolist()


def every(scores, transitions):
    """All paths with their scores, in the order of ties: lower states win, at later keys first."""
    visible = [i for i in range(len(scores)) if max(scores[i]) > -INF]
    s = len(transitions)
    for z in product(range(s), repeat=len(visible)):
        z = z[::-1]
        total = sum(scores[i][a] for i, a in zip(visible, z, strict=True))
        total += sum(transitions[a][b] for a, b in pairwise(z))
        path = [-1] * len(scores)
        for i, a in zip(visible, z, strict=True):
            path[i] = a
        yield total, path


@st.composite
def chains(draw, score):
    s = draw(st.integers(1, 3))
    score = score.map(float) | st.just(-INF)
    rows = st.lists(score, min_size=s, max_size=s)
    return draw(st.lists(rows, max_size=5)), draw(st.lists(rows, min_size=s, max_size=s))


@given(chains(st.integers(-3, 3)))
def test_the_best_of_all_assignments_and_of_equal_ones_the_lowest_states(given):
    scores, transitions = given
    want = max(every(scores, transitions), key=lambda found: found[0])  # the first of the best
    total, path = run(np.reshape(scores, (len(scores), len(transitions))), transitions)
    assert total == want[0]
    assert path == (want[1] if total > -INF else [-1] * len(scores))


@given(chains(st.floats(-5, 5)))
def test_scores_that_are_not_round(given):
    scores, transitions = given
    total, path = run(np.reshape(scores, (len(scores), len(transitions))), transitions)
    assert total == pytest.approx(max(t for t, _ in every(scores, transitions)))
    if total > -INF:
        assert total == pytest.approx({tuple(p): t for t, p in every(scores, transitions)}[tuple(path)])


def test_no_keys_score_0_and_no_path_minus_infinity():
    assert run(np.empty((0, 2)), np.zeros((2, 2))) == (0.0, [])
    assert run([[-INF, -INF]], np.zeros((2, 2))) == (0.0, [-1])
    assert run([[0, -INF], [-INF, 0]], [[0, -INF], [0, 0]]) == (-INF, [-1, -1])
    assert run([[-INF, 0], [-INF, -INF], [0, -INF]], [[-INF, -INF], [3, -INF]]) == (3.0, [1, -1, 0])


def test_rows_have_the_transitions_that_they_name():
    scores = np.random.default_rng(0).normal(size=(4, 6, 3)).astype(np.float32)
    scores[1, 2] = -INF
    scores[3, 0, 0] = INF
    transitions = np.random.default_rng(1).normal(size=(2, 3, 3)).astype(np.float32)
    which = np.array([0, 1, 1, 0])
    paths, totals = np.empty((4, 6), np.int64), np.empty(4)
    best(0, 4, scores, transitions, which, paths, totals)
    for r in range(3):
        assert (totals[r], paths[r].tolist()) == run(scores[r], transitions[which[r]])
    assert np.isnan(totals[3]) and (paths[3] == -1).all()
