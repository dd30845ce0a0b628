"""Fusedmax: the definition, long rows by their optimality conditions, and padding that changes nothing."""

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from regard.kernels.row_maps.total_variation import bends, direct, heights, taut_string
from regard.maps.fusedmax import fusedmax
from regard.maps.sparsemax import sparsemax

INF, NAN = float("inf"), float("nan")
score = st.floats(-2, 2, width=32) | st.integers(-1, 1).map(float)


def prox(x, strength, by):
    """The prox of an array and its number of segments, by one of the algorithms."""
    ends, side = np.empty((2, len(x) + 1), np.int64)
    height, corners = np.empty(len(x) + 1), np.empty((4, len(x) + 1))
    if by == "direct":
        count = direct(x, len(x), strength, 10**9, ends, side)
    elif by == "taut string":
        count = taut_string(x, len(x), strength, ends, side, corners)
    else:
        count = bends(x, len(x), strength, ends, side, corners)
    heights(x, strength, count, ends, side, height)
    return np.repeat(height[:count], np.diff(ends[:count], prepend=0))


def rows(n):
    """Rows of every kind: noise of three scales, steps, smooth, sorted, zigzag."""
    g = np.random.default_rng(n)
    t = np.linspace(0, 1, n)
    noise = g.normal(size=n)
    zigzag = np.where(np.arange(n) % 2, t, -t)
    smooth = [t, -t, np.sin(9 * t), (t - 0.5) ** 3, np.sort(noise), np.cumsum(noise) / 10]
    return [noise * 0.1, noise, noise * 5, np.round(noise), *smooth, zigzag, np.zeros(n)]


@pytest.mark.parametrize("by", ["direct", "taut string", "both"])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 500])
@pytest.mark.parametrize("strength", [0.01, 0.1, 1.0, 20.0])
def test_the_prox_satisfies_its_optimality_conditions(by, n, strength):
    for x in rows(n):
        y = prox(x, strength, by)
        force = np.cumsum(x - y)  # between neighbours; at most λ, and λ exactly where y steps
        assert abs(force[-1]) < 1e-9
        assert np.abs(force[:-1]).max(initial=0) <= strength + 1e-9
        step = np.sign(np.diff(y))
        assert np.abs(force[:-1] + strength * step)[step != 0].max(initial=0) < 1e-9


@pytest.mark.parametrize("n", [4, 40])
@pytest.mark.parametrize("strength", [0.05, 0.5])
def test_the_prox_agrees_with_a_quadratic_program(n, strength):
    for x in rows(n):
        differences = np.diff(np.eye(n), axis=0)
        dual = lsq_linear(differences.T, x, bounds=(-strength, strength), method="bvls", tol=1e-14)
        np.testing.assert_allclose(prox(x, strength, "both"), x - differences.T @ dual.x, atol=1e-8)


@pytest.mark.parametrize("n", [30, 64, 1000, 20_000])
@pytest.mark.parametrize("strength", [0.01, 0.1, 1.0])
def test_long_rows_are_sparsemax_of_the_prox(n, strength):
    """Claim C20, where only a few keys near the top are ever looked at."""
    for x in rows(n):
        y = torch.from_numpy(prox(x, strength, "taut string"))
        torch.testing.assert_close(fusedmax(torch.from_numpy(x), strength), sparsemax(y), rtol=0, atol=1e-11)


@pytest.mark.parametrize("n", [100, 4096])
def test_float32_is_float64_rounded(n):
    for x in rows(n):
        scores = torch.from_numpy(x).float()
        torch.testing.assert_close(fusedmax(scores).double(), fusedmax(scores.double()), rtol=0, atol=1e-6)


def test_without_strength_it_is_sparsemax():
    scores = torch.randn(10, 30)
    assert fusedmax(scores, 0.0).equal(sparsemax(scores))
    torch.testing.assert_close(fusedmax(scores, 1e-9), sparsemax(scores))


def test_with_much_strength_or_temperature_it_is_uniform():
    scores = torch.randn(10, 30)
    for p in (fusedmax(scores, 1e3), fusedmax(scores, 1e12), fusedmax(scores, 0.1, 1e9)):
        torch.testing.assert_close(p, torch.full((10, 30), 1 / 30))


def test_weights_come_in_runs():
    """Claim C20: far fewer changes of weight than sparsemax has, on a smooth signal in noise."""
    torch.manual_seed(0)
    t = torch.linspace(0, 6, 60)
    scores = torch.sin(t) / 4 + torch.randn(200, 60) / 8

    def runs(p):
        return (p.diff() != 0).sum(-1).double().mean()

    assert runs(fusedmax(scores, 0.2)) <= 0.6 * runs(sparsemax(scores))


def test_the_lecture_forgets_the_strength():
    """Correction 8: Ω(p) = ½‖p‖² + Σ |pⱼ − pⱼ₋₁| as printed is λ = 1. The map depends on λ."""
    theta = torch.tensor([1.0, 2.1, 1.9, 0.3], dtype=torch.float64)

    def printed(p):
        return (p @ theta - (p @ p) / 2 - p.diff().abs().sum()).item()

    others = [fusedmax(theta, strength) for strength in (0.01, 0.1, 3.0)]
    assert all(printed(fusedmax(theta, 1.0)) > printed(p) + 1e-3 for p in others[:2])
    assert printed(fusedmax(theta, 1.0)) >= printed(others[2])
    torch.testing.assert_close(fusedmax(theta, 0.1, 0.5), fusedmax(theta / 0.5, 0.1))
    assert not fusedmax(theta, 0.1, 0.5).allclose(fusedmax(theta, 0.1))


def test_scores_of_any_size():
    for huge in (1e4, 1e30, 3e38):
        assert fusedmax(torch.tensor([0.0, huge, -huge, 1.0])).tolist() == [0, 1, 0, 0]
        p = fusedmax(torch.tensor([huge, huge, -huge, huge]))  # each stretch pays for its inner edge
        assert p.tolist() == pytest.approx([0.35, 0.35, 0, 0.3])


def test_bad_input_is_refused_by_name():
    for strength in (-0.1, INF, NAN):
        with pytest.raises(ValueError, match=f"strength must be at least 0 and finite; got {strength}"):
            fusedmax(torch.zeros(3), strength)
    with pytest.raises(ValueError, match="temperature must be above 0; got 0"):
        fusedmax(torch.zeros(3), 0.1, 0.0)


@pytest.mark.parametrize("strength", [1e3, 1e14, 1e16, 1e300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_enough_strength_fuses_all_keys(strength, dtype):
    torch.manual_seed(0)
    x = torch.randn(4, 40, dtype=dtype).requires_grad_()
    hidden = torch.where(torch.arange(40) % 3 == 0, -torch.inf, 100 * x)
    for scores, size in ((x, 40), (hidden, 26), (0 * x, 40)):
        weights = fusedmax(scores, strength)
        torch.testing.assert_close(weights, torch.where(scores == -torch.inf, 0, 1 / size).to(dtype))
        (gradient,) = torch.autograd.grad(weights.square().sum(), x)
        assert gradient.abs().max() < 1e-4


def test_a_low_key_keeps_its_neighbours_apart_whatever_the_temperature():
    x = torch.tensor([3e38, -3e38, 2.9e38])
    assert fusedmax(x, temperature=0.5).tolist() == [1, 0, 0]
    y = torch.tensor([0.2, -3e38, 0.0])
    torch.testing.assert_close(fusedmax(y, temperature=0.5), fusedmax(torch.tensor([0.4, -100, 0.0])))
