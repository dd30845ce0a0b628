"""Sinkhorn: where it leads, and that the kernel does what the definition says."""

import math
from itertools import permutations

import pytest
import torch
from hypothesis import strategies as st

from regard.maps import sinkhorn, softmax
from regard.maps.sinkhorn_map import rounds

sizes = st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(0, 3), st.integers(0, 10**6))


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def close(found, expected, atol):
    torch.testing.assert_close(found, expected, atol=atol, rtol=0, check_dtype=False)


@pytest.mark.parametrize(("m", "n"), [(5, 5), (3, 8), (8, 3), (1, 4), (4, 1)])
def test_rows_sum_to_one_and_columns_to_their_share(m, n):
    p = sinkhorn(normal(6, m, n), iterations=300)
    close(p.sum(-1), torch.ones(6, m), atol=1e-12)
    close(p.sum(-2), torch.full((6, n), m / n, dtype=p.dtype), atol=1e-9)


def test_columns_converge_and_rows_are_exact_after_any_number_of_rounds():
    theta = normal(50, 6, 6) * 2
    errors = []
    for iterations in (0, 1, 5, 20, 100, 500):
        p = sinkhorn(theta, iterations=iterations)
        close(p.sum(-1), torch.ones(50, 6), atol=1e-12)
        errors.append((p.sum(-2) - 1).abs().amax().item())
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0.5 and errors[-1] < 1e-6


def test_no_round_at_all_is_softmax():
    theta = normal(3, 4, 5)
    close(sinkhorn(theta, iterations=0), softmax(theta), atol=1e-12)
    close(sinkhorn(theta, 0.5, iterations=0), softmax(theta, 0.5), atol=1e-12)
    close(sinkhorn(theta, torch.tensor(0.8)), sinkhorn(theta / 0.8), atol=1e-7)


def test_the_limit_is_optimal():
    """log p − θ/γ = fᵢ + gⱼ: the conditions of the maximum of ⟨p, θ⟩/γ + H(p) with these sums."""
    theta = normal(4, 6)
    p = sinkhorn(theta, 0.7, iterations=500)
    rest = p.log() - theta / 0.7
    close(rest - rest.mean(0) - rest.mean(1, keepdim=True) + rest.mean(), torch.zeros(4, 6), atol=1e-9)
    value = (p * theta).sum() / 0.7 - (p * p.log()).sum()
    around = normal(200, 4, 6, seed=1)
    around = (
        around
        - around.mean(-1, keepdim=True)
        - around.mean(-2, keepdim=True)
        + around.mean((-2, -1))[:, None, None]
    )
    for step in (
        0.9 * around * p.min() / around.abs().amax((-2, -1))[:, None, None]
    ):  # other points with these sums
        assert ((p + step) * theta).sum() / 0.7 - ((p + step) * (p + step).log()).sum() < value


def test_at_low_temperature_it_is_the_best_matching():
    clear = 0
    for theta in normal(40, 4, 4):
        ways = [torch.eye(4, dtype=torch.float64)[list(way)] for way in permutations(range(4))]
        best, second = sorted(ways, key=lambda way: -(way * theta).sum())[:2]
        if ((best - second) * theta).sum() > 0.5:
            clear += 1
            close(sinkhorn(theta, 0.05, iterations=2000), best, atol=0.05)
    assert clear > 20
    theta = torch.tensor([[2.0, 1.9], [2.0, 0.0]])  # both queries like the first key best
    close(sinkhorn(theta, 0.05), torch.eye(2).flip(0), atol=0.05)
    assert softmax(theta, 0.05).argmax(-1).tolist() == [0, 0]  # control


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 100.0, 1000.0])
@pytest.mark.parametrize(("m", "n"), [(5, 7), (40, 40), (9, 3)])
def test_the_kernel_is_the_definition(dtype, scale, m, n):
    """In values and gradients, hidden cells and rows and columns of nothing included."""
    for iterations in (0, 1, 20, 100):
        theta = normal(3, m, n, dtype=dtype) * scale
        theta[torch.rand(3, m, n, generator=torch.Generator().manual_seed(1)) < 0.2] = -math.inf
        theta[1, 2] = theta[1, :, 1] = -math.inf
        theta, gradient = theta.requires_grad_(), normal(3, m, n, seed=2, dtype=dtype)
        p = sinkhorn(theta, iterations=iterations)
        (grad,) = torch.autograd.grad(p, theta, gradient)
        wide = theta.detach().double().requires_grad_()
        q = rounds(wide, iterations)
        (expected,) = torch.autograd.grad(q, wide, gradient.double())
        close(p.double(), q, atol=1e-10 if dtype == torch.float64 else 1e-5)
        close(grad.double(), expected, atol=1e-9 if dtype == torch.float64 else 2e-4)


def test_scores_far_apart_do_not_underflow():
    """Two queries that both despise a key by 1,000 still share it: in log space nothing is lost."""
    for dtype in (torch.float32, torch.float64):
        close(
            sinkhorn(torch.tensor([[0, -1000], [0, -1000]], dtype=dtype)), torch.full((2, 2), 0.5), atol=1e-6
        )
    chain = torch.tensor([[0.0, -300.0, -900.0], [0.0, -900.0, -300.0], [-300.0, 0.0, -900.0]])
    close(sinkhorn(chain), rounds(chain.double(), 20), atol=1e-5)


def test_what_no_matrix_can_satisfy_still_has_rows_that_sum_to_one():
    """Two queries of three see one key alone: its column cannot sum to 1."""
    theta = torch.zeros(3, 3, dtype=torch.float64)
    theta[:2, 1:] = -math.inf
    theta.requires_grad_()
    p = sinkhorn(theta, iterations=1000)
    close(p.sum(-1), torch.ones(3), atol=1e-12)
    assert p.sum(-2)[0] > 1.9
    (grad,) = torch.autograd.grad(p[2, 1], theta)
    assert grad.isfinite().all()


def test_changes_in_place_are_seen():
    theta = normal(2, 3, 3)
    p = sinkhorn(theta.requires_grad_())
    p.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):  # not silently wrong
        torch.autograd.grad(p.sum(), theta)


def test_bad_settings_are_named():
    for wrong in (-1, 2.5):
        with pytest.raises(ValueError, match=f"iterations must be a whole number, at least 0; got {wrong}"):
            sinkhorn(normal(2, 2), iterations=wrong)
    with pytest.raises(ValueError, match="temperature must be above 0; got 0"):
        sinkhorn(normal(2, 2), 0)
