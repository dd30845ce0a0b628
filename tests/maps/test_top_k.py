"""Top-k softmax and sparsemax: who stays, who shares, and nobody else learns."""

import pytest
import torch
from hypothesis import strategies as st

from regard.maps.softmax import softmax
from regard.maps.sparsemax import sparsemax
from regard.maps.top_k import top_k_softmax, top_k_sparsemax

INF, NAN = float("inf"), float("nan")
BOTH = {"top_k_softmax": (top_k_softmax, softmax), "top_k_sparsemax": (top_k_sparsemax, sparsemax)}
both = pytest.mark.parametrize("name", BOTH)
scores_of_a_row = st.lists(st.floats(-2, 2, width=32) | st.integers(-1, 1).map(float), min_size=1, max_size=6)


@both
def test_ties_for_the_last_place_go_to_those_that_come_first(name):
    p = BOTH[name][0](torch.tensor([0.5, 0.5, 0.6, 0.5, 0.5]), k=3)
    assert (p > 0).tolist() == [True, True, True, False, False]


@both
def test_with_room_for_all_it_is_the_map(name):
    top_k, map = BOTH[name]
    scores = torch.randn(5, 9)
    for k in (9, 10, 1000):
        assert top_k(scores, k=k).equal(map(scores))


def test_sparsemax_changes_only_where_its_support_is_larger_than_k():
    scores = torch.randn(200, 30, dtype=torch.float64) / 2
    p = sparsemax(scores)
    small = (p > 0).sum(-1) <= 4
    assert 20 < small.sum() < 180
    torch.testing.assert_close(top_k_sparsemax(scores, k=4)[small], p[small])
    assert ((top_k_sparsemax(scores, k=4) > 0).sum(-1) <= 4).all()
    assert ((top_k_sparsemax(scores, k=4)[~small] - p[~small]).abs().amax(-1) > 1e-6).all()


@both
def test_hidden_keys_do_not_take_a_place(name):
    p = BOTH[name][0](torch.tensor([[-INF, 1.0, -INF, 0.5, 0.9], [-INF] * 5, [3.0, *[-INF] * 4]]), k=2)
    assert (p > 0).tolist() == [[0, 1, 0, 0, 1], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]]


@both
@pytest.mark.parametrize("bad", [NAN, INF])
@pytest.mark.parametrize("many", [1, 3])
def test_a_row_that_cannot_be_mapped_is_nan(name, bad, many):
    scores = torch.randn(2, 6)
    scores[0, 1 : 1 + many] = bad
    p = BOTH[name][0](scores, k=2)
    assert p[0].isnan().all()
    assert p[1].sum() == pytest.approx(1)


@both
def test_bad_k_is_refused_by_name(name):
    with pytest.raises(ValueError, match=r"k must be at least 1; got 0"):
        BOTH[name][0](torch.zeros(3), k=0)
