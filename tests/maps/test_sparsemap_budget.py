"""SparseMAP of a budget: the definition, long rows by other means, and the sets that make it."""

import math
from functools import partial

import pytest
import torch
from hypothesis import strategies as st

import regard
from regard.kernels.sparsemap.budget_operator import by_sorting
from regard.kernels.sparsemap.sparsemap_batch import BUDGET
from regard.kernels.sparsemap.sparsemap_operator import nearest
from regard.maps.sparsemap_budget import sparsemap_budget
from regard.structures.budget import Budget

INF, NAN = math.inf, math.nan
score = st.floats(-3, 3, width=32) | st.integers(-2, 2).map(float)
budgets = pytest.mark.parametrize("k", [0, 1, 2, 7, 100])
devices = pytest.mark.parametrize("map", [sparsemap_budget, by_sorting], ids=["kernel", "reference"])


def rows(n):
    """Rows of every kind: noise of several scales and heights, ties, a few far above the rest."""
    g = torch.Generator().manual_seed(n)
    noise = torch.randn(8, n, generator=g, dtype=torch.float64)
    scale = torch.tensor([0.1, 1, 10, 1e4, 1, 1, 1, 1]).double().unsqueeze(-1)
    noise = noise * scale
    noise[4] = noise[4].round()
    noise[5] += 50
    noise[6] = 0.5
    noise[7, ::5] += 1e6
    return noise


@budgets
def test_agrees_with_the_active_set(k):
    scores = rows(30).div(4).requires_grad_()
    gradient = torch.randn(8, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    one = scores.unsqueeze(-2)
    slow = nearest(one, one.new_zeros(8, 0, 0), BUDGET, k).squeeze(-2)
    fast = sparsemap_budget(scores, k)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-7)
    untied = [0, 1, 2, 3, 5, 7]
    got, want = (torch.autograd.grad(mu, scores, gradient)[0][untied] for mu in (fast, slow))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-6)


def by_bisection(theta, k):
    """clip(θ − τ, 0, 1), τ bisected."""
    low = torch.zeros(len(theta), 1, dtype=torch.float64)
    high = theta.amax(-1, keepdim=True).clamp(min=0)
    for _ in range(200):
        middle = (low + high) / 2
        much = (theta - middle).clamp(0, 1).sum(-1, keepdim=True) > k
        low, high = torch.where(much, middle, low), torch.where(much, high, middle)
    return torch.where(
        theta.clamp(0, 1).sum(-1, keepdim=True) > k, (theta - high).clamp(0, 1), theta.clamp(0, 1)
    )


@devices
@budgets
@pytest.mark.parametrize("n", [1, 2, 9, 64, 1000])
def test_long_rows(map, k, n):
    theta = rows(n)
    mu = map(theta, k)
    torch.testing.assert_close(mu, by_bisection(theta, k), rtol=0, atol=1e-8)
    slopes = theta - mu
    best = slopes.clamp(min=0).topk(min(k, n)).values.sum(-1)  # of all vertices
    assert (best - (slopes * mu).sum(-1)).abs().max() < 1e-6
    assert (mu.sum(-1) <= k + 1e-9).all()
    torch.testing.assert_close(
        map(theta.float(), k), map(theta.float().double(), k).float(), rtol=0, atol=2e-6
    )


@devices
def test_scores_of_any_size(map):
    for huge in (1e4, 1e30, 3e38):
        assert map(torch.tensor([0.5, huge, -huge, 0.25]), 2).tolist() == [0.5, 1, 0, 0.25]
        shared = map(torch.tensor([huge, huge, -huge, 1.0, huge, huge]), 2)
        assert shared.tolist() == [0.5, 0.5, 0, 0, 0.5, 0.5]
        mu = map(torch.tensor([huge, 0.75, -huge, 0.5, 0.25]), 2)
        assert mu.tolist() == pytest.approx([1, 7 / 12, 0, 4 / 12, 1 / 12])
    top = torch.tensor([1e308, 1.7e308] * 500, dtype=torch.float64)
    assert map(top, 600).tolist() == pytest.approx([0.2, 1] * 500)


@devices
def test_a_budget_that_nobody_needs_is_a_clip(map):
    theta = torch.randn(5, 9)
    assert map(theta, 9).equal(theta.clamp(0, 1))
    assert map(theta, 10**9).equal(theta.clamp(0, 1))
    assert (map(theta, 0) == 0).all()


def test_a_budget_of_one_between_high_scores_is_sparsemax():
    theta = torch.randn(20, 30, dtype=torch.float64) + 9
    torch.testing.assert_close(sparsemap_budget(theta, 1), regard.maps.sparsemax(theta))


@devices
def test_rows_that_cannot_be_mapped(map):
    theta = torch.tensor([[-INF, -INF, -INF], [0.5, NAN, 1], [0.2, INF, -INF], [-INF, 0.5, -INF]])
    mu = map(theta, 2)
    assert (mu[0] == 0).all()
    assert mu[1:3].isnan().all()
    assert mu[3].tolist() == [0, 0.5, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [5, 900])
def test_both_backwards_agree(dtype, n):
    theta = torch.cat([rows(n), rows(n) / 1e4]).to(dtype).requires_grad_()
    gradient = torch.randn(theta.shape, dtype=dtype)
    for k in (1, 4, n):
        mu = sparsemap_budget(theta, k)
        (by_kernel,) = torch.autograd.grad(mu, theta, gradient, retain_graph=True)
        (by_formula,) = torch.autograd.grad(mu, theta, gradient, create_graph=True)
        torch.testing.assert_close(by_kernel, by_formula, rtol=1e-4, atol=1e-5)
        free = (mu > 0) & (mu < 1)
        assert (by_kernel[~free] == 0).all()
        spent = theta.detach().double().clamp(0, 1).sum(-1) > k  # what is spent is only moved about
        torch.testing.assert_close(
            by_kernel[spent].sum(-1), torch.zeros(int(spent.sum()), dtype=dtype), rtol=0, atol=1e-3
        )


def test_where_the_budget_is_just_spent_it_counts_as_spent():
    theta = torch.tensor([0.5, 0.5, 1.0], requires_grad=True)
    (gradient,) = torch.autograd.grad(sparsemap_budget(theta, 2), theta, torch.tensor([1.0, 0.0, 0.0]))
    assert gradient.tolist() == [0.5, -0.5, 0]
    (gradient,) = torch.autograd.grad(sparsemap_budget(theta, 3), theta, torch.tensor([1.0, 0.0, 0.0]))
    assert gradient.tolist() == [1, 0, 0]


def test_bad_budgets_are_refused_by_name():
    for k in (-1, 1.5, True, "2"):
        for make in (partial(sparsemap_budget, torch.zeros(3)), Budget):
            with pytest.raises(ValueError, match=f"k must be a whole number of at least 0; got {k!r}"):
                make(k)
