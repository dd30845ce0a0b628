"""Bounded softmax and sparsemax: nobody gets more than the limit, and what is left goes to the others."""

import pytest
import torch
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch.autograd import gradcheck, gradgradcheck

from maps.map_settings import ROWS
from regard.core.errors import DtypeError, ShapeError
from regard.maps.bounded import bounded_softmax, bounded_sparsemax
from regard.maps.softmax import softmax
from regard.maps.sparsemax import sparsemax

INF, NAN = float("inf"), float("nan")
BOTH = {"bounded_softmax": (bounded_softmax, softmax), "bounded_sparsemax": (bounded_sparsemax, sparsemax)}
both = pytest.mark.parametrize("name", BOTH)
score = st.floats(-5, 5, width=32) | st.integers(-1, 1).map(float)
limit = st.floats(0, 1.5, width=32) | st.sampled_from([-0.5, 0.0, 0.25, 0.5, 1.0, INF])


def doubles(values):
    return torch.tensor(values, dtype=torch.float64)


@both
def test_is_the_maximum_it_claims_to_be(name):
    torch.manual_seed(0)
    for _ in range(10):
        theta, upper = torch.randn(5, dtype=torch.float64), torch.rand(5, dtype=torch.float64) / 2 + 0.2

        def loss(p, theta=theta):
            p = torch.from_numpy(p)
            regular = torch.xlogy(p, p).sum() if name == "bounded_softmax" else (p @ p) / 2
            return (regular - p @ theta).item()

        bounds = [(1e-12, u) for u in upper.tolist()]
        start = (upper / upper.sum()).numpy()
        sums = {"type": "eq", "fun": lambda p: p.sum() - 1}
        found = minimize(loss, start, bounds=bounds, constraints=sums, tol=1e-12, options={"maxiter": 500})
        p = BOTH[name][0](theta, upper)
        assert p.tolist() == pytest.approx(found.x.tolist(), abs=1e-4)
        assert loss(p.numpy()) <= found.fun + 1e-9


@both
def test_without_a_limit_it_is_the_map(name):
    bounded, map = BOTH[name]
    scores = torch.randn(5, 9)
    assert bounded(scores).equal(map(scores))
    assert bounded(scores, 3.0).equal(map(scores))
    torch.testing.assert_close(bounded(scores, torch.ones(())), map(scores))
    torch.testing.assert_close(bounded(scores, torch.full((9,), INF)), map(scores))


@both
@pytest.mark.parametrize("n", [5, 64, 3000])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0, 1e30])
def test_weights_keep_their_limits_and_sum_to_1(name, n, scale):
    torch.manual_seed(n)
    scores = torch.randn(20, n) * scale
    for upper in (torch.tensor(0.3), torch.rand(n) + 0.2, torch.rand(20, n) + 0.2):
        p = BOTH[name][0](scores, upper)
        assert (p >= 0).all()
        assert (p <= upper).all()
        torch.testing.assert_close(p.sum(-1), torch.ones(20))


@both
def test_limits_that_sum_to_less_than_1_are_all_spent(name):
    scores = torch.tensor([[2.0, 1.0, 0.0], [2.0, -INF, 0.0]])
    upper = torch.tensor([0.1, 0.8, 0.3])
    p = BOTH[name][0](scores, upper)
    assert p[0].sum() == pytest.approx(1)
    assert p[1].tolist() == pytest.approx([0.1, 0, 0.3])
    assert BOTH[name][0](torch.zeros(3), 0.0).equal(torch.zeros(3))
    assert BOTH[name][0](torch.zeros(3), torch.tensor([0.5, NAN, 0.5])).isnan().all()


@both
def test_one_score_far_above_leaves_the_rest_to_the_others(name):
    p = BOTH[name][0](torch.tensor([1e4, 0.0, 0.0, -INF]), 0.5)
    assert p.tolist() == pytest.approx([0.5, 0.25, 0.25, 0])


@both
def test_hidden_keys_change_nothing(name):
    scores, upper = torch.randn(6, dtype=torch.float64), torch.rand(6, dtype=torch.float64)
    wide = torch.full((9,), -INF, dtype=torch.float64)
    limits = torch.full((9,), 0.7, dtype=torch.float64)
    wide[[0, 2, 3, 5, 6, 8]], limits[[0, 2, 3, 5, 6, 8]] = scores, upper
    p = BOTH[name][0](wide, limits)
    torch.testing.assert_close(p[[0, 2, 3, 5, 6, 8]], BOTH[name][0](scores, upper))
    assert (p[[1, 4, 7]] == 0).all()


@both
def test_bad_limits_are_refused_by_name(name):
    with pytest.raises(ShapeError, match=r"upper must broadcast to scores \(2, 3\); got \(4,\)"):
        BOTH[name][0](torch.zeros(2, 3), torch.ones(4))
    with pytest.raises(DtypeError, match=r"upper must be torch.float32 as scores is; got torch.float64"):
        BOTH[name][0](torch.zeros(2, 3), torch.ones(3, dtype=torch.float64))


@both
def test_the_walk_over_derivatives_meets_every_kind_of_row(name):
    """Rows of 3 keys can spend everything; in those of 6 some keys are free and some at their limit."""
    for case in (case for case in ROWS if case.name == name and case.tensors):
        upper = case.settings["upper"].expand(4, 6)
        p = case(1.5 * torch.randn(4, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64))
        assert ((p < upper) & (p > 0)).any() and (p == upper).any()
        assert upper[0, 3:].sum() < 1 < upper[0].sum()


@both
def test_derivatives_to_a_limit_for_each_row(name):
    torch.manual_seed(0)
    map = BOTH[name][0]
    scores = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    upper = (torch.rand(4, 1, dtype=torch.float64) / 3 + 0.05).requires_grad_()
    p = map(scores, upper)
    assert ((p < upper) & (p > 0)).any(), "some key is free"
    assert (p == upper).any(), "some key is at its limit"
    assert gradcheck(map, (scores, upper), check_forward_ad=True)
    assert gradgradcheck(map, (scores, upper))


@pytest.mark.parametrize("map", [bounded_softmax, bounded_sparsemax])
def test_a_number_as_limit_is_not_rounded_to_half_precision(map):
    """Three keys at 0.3 leave 0.1; at the 0.30078 of bfloat16 they would leave 0.0977."""
    scores = torch.tensor([9.0, 9, 9, 0], dtype=torch.bfloat16)
    assert map(scores, 0.3)[3] == torch.tensor(0.1, dtype=torch.bfloat16)
