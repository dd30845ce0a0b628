"""Weights of a given density: the ridge regression by another route, masks, and what a model predicts."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import regard.continuous.ridge as ridge_fit
from regard.continuous import (
    Basis,
    Gaussian,
    Gaussian2D,
    TruncatedParabola,
    TruncatedParaboloid,
    continuous_weights,
)
from regard.core.errors import DtypeError, ShapeError

LINE, PLANE = (Gaussian, TruncatedParabola), (Gaussian2D, TruncatedParaboloid)


def real(*x):
    return torch.tensor(*x, dtype=torch.float64)


def least_squares(psi, ridge):
    """G (N, n) of Ψ (n, N), by one least-squares system instead of the normal equations."""
    n, number = psi.shape
    stacked = np.vstack([psi.numpy(), ridge**0.5 * np.eye(number)])
    return real(np.linalg.lstsq(stacked, np.vstack([np.eye(n), np.zeros((number, n))]), rcond=None)[0])


def fitted_on_line(length, number, ridge):
    where = real((np.arange(length) + 0.5) / length)
    basis = Basis.even(number, real([1 / length]))
    return basis, least_squares(basis(where), ridge)


def fitted_in_plane(h, w, number, ridge, seen):
    y, x = (real((np.arange(size) + 0.5) / size) for size in (h, w))
    basis = Basis.even(number, real([1 / h, 1 / w]))
    where = torch.cartesian_prod(y, x)[seen]
    G = torch.zeros(number**2, h * w, dtype=torch.float64)
    G[:, seen] = least_squares(basis(where), ridge)
    return basis, G


@pytest.mark.parametrize("kind", LINE)
@pytest.mark.parametrize("n", [1, 2, 7, 40, 300])
@pytest.mark.parametrize(("number", "ridge"), [(None, 0.1), (1, 0.1), (12, 1e-3), (50, 2.0)])
def test_on_the_line(kind, n, number, ridge):
    density = kind(real([0.2, 0.9]), real([0.03, 1e-4]))
    basis, G = fitted_on_line(n, number or 32, ridge)
    weights = continuous_weights(density, n, basis=number, ridge=ridge)
    torch.testing.assert_close(weights, density.expect(basis) @ G, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", PLANE)
@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (4, 3), (14, 14)])
@pytest.mark.parametrize("number", [None, 3])
def test_in_the_plane(kind, shape, number):
    density = kind(real([[0.2, 0.9], [0.5, 0.5]]), real([[0.03, 0.01], [0.01, 0.02]]))
    everything = torch.ones(shape[0] * shape[1], dtype=torch.bool)
    basis, G = fitted_in_plane(*shape, number or 10, 0.1, everything)
    weights = continuous_weights(density, shape, basis=number)
    torch.testing.assert_close(weights, density.expect(basis) @ G, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", LINE)
def test_under_a_mask_the_line_closes_up(kind):
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]).bool()
    density = kind(real([0.2, 0.4, 0.5, 0.6]), real([0.03, 0.02, 0.01, 0.04]))
    weights = continuous_weights(density, 5, mask=mask)
    assert (weights[~mask] == 0).all()
    for row, mean, variance, seen in zip(weights, density.mean, density.variance, mask, strict=True):
        alone = continuous_weights(kind(mean, variance), int(seen.sum()))
        torch.testing.assert_close(row[seen], alone)


@pytest.mark.parametrize("kind", PLANE)
def test_under_a_mask_the_plane_keeps_its_places(kind):
    g = torch.Generator().manual_seed(0)
    mask = torch.rand(5, 12, generator=g) < 0.6
    mask[1], mask[2] = mask[0], False
    density = kind(torch.rand(5, 2, generator=g, dtype=torch.float64), real([[0.03, 0.01], [0.01, 0.02]]))
    weights = continuous_weights(density, (4, 3), basis=4, mask=mask)
    assert (weights[~mask] == 0).all()
    for row, mean, seen in zip(weights, density.mean, mask, strict=True):
        basis, G = fitted_in_plane(4, 3, 4, 0.1, seen)
        torch.testing.assert_close(row, kind(mean, density.covariance).expect(basis) @ G, rtol=0, atol=1e-10)


def test_the_mask_broadcasts_with_the_density():
    mask = (torch.arange(6) < torch.tensor([6, 4])[:, None])[:, None]  # (2, 1, 6)
    density = TruncatedParabola(torch.rand(2, 3), torch.full((2, 3), 0.02))
    weights = continuous_weights(density, 6, mask=mask)
    assert weights.shape == (2, 3, 6)
    one = TruncatedParabola(density.mean[1, 2], density.variance[1, 2])
    torch.testing.assert_close(weights[1, 2, :4], continuous_weights(one, 4))


def test_a_smooth_function_is_read_off():
    """z = E[V(t)]: for values of a line a + bt, and a density well inside, a + bμ."""
    t = real((np.arange(200) + 0.5) / 200)
    for kind in LINE:
        density = kind(real([0.3, 0.5, 0.62]), real([1e-4, 4e-4, 1e-3]))
        z = continuous_weights(density, 200, ridge=1e-3) @ (2 - 3 * t)
        torch.testing.assert_close(z, 2 - 3 * density.mean, rtol=0, atol=2e-3)


@pytest.mark.parametrize("mask", [False, True])
def test_a_model_can_predict_mean_and_variance(mask):
    mean, log = real([0.3, 0.6, 0.5]).requires_grad_(), real([-4.0, -6.0, -9.0]).requires_grad_()
    seen = torch.arange(9) < torch.tensor([9, 5, 0])[:, None] if mask else None
    for kind in LINE:

        def weights(mean, log, kind=kind):
            return continuous_weights(kind(mean, log.exp()), 9, mask=seen)

        assert gradcheck(weights, (mean, log), check_forward_ad=True)
        assert gradgradcheck(weights, (mean, log), check_fwd_over_rev=True)


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("kind", PLANE)
def test_a_model_can_predict_a_covariance(kind, mask):
    mean = real([[0.3, 0.7], [0.5, 0.1]]).requires_grad_()
    factor = real([[[0.2, 0.0], [0.1, 0.1]], [[0.1, 0.0], [-0.1, 0.2]]]).requires_grad_()
    seen = torch.arange(6) < torch.tensor([6, 4])[:, None] if mask else None

    def weights(mean, factor):
        return continuous_weights(kind(mean, factor @ factor.mT), (2, 3), basis=3, mask=seen)

    assert gradcheck(weights, (mean, factor))
    assert gradgradcheck(weights, (mean, factor))


def test_many_keys_need_no_matrix_of_their_square():
    """70,000 × 70,000 numbers would be 39 GB."""
    density = TruncatedParabola(torch.tensor(0.5), torch.tensor(1e-3))
    assert continuous_weights(density, 70_000).sum().item() == pytest.approx(1, abs=1e-3)
    density = TruncatedParaboloid(torch.tensor([0.5, 0.5]), 1e-2 * torch.eye(2))
    assert continuous_weights(density, (250, 280)).sum().item() == pytest.approx(1, abs=1e-2)


def test_what_is_kept_is_bounded_and_the_same():
    ridge_fit._short.cache_clear()
    first = continuous_weights(Gaussian(real(0.3), real(0.1)), 11)
    assert ridge_fit._short.cache_info().misses == 1
    again = continuous_weights(Gaussian(real(0.3), real(0.1)), 11)
    assert ridge_fit._short.cache_info().hits >= 1
    assert first.equal(again)
    with torch.inference_mode():
        inside = continuous_weights(Gaussian(real(0.3), real(0.1)), 13)
    mean = real(0.3).requires_grad_()
    outside = continuous_weights(Gaussian(mean, real(0.1)), 13)
    torch.testing.assert_close(outside.detach(), inside.clone())
    assert torch.autograd.grad(outside.square().sum(), mean)[0] != 0


def test_no_keys_and_no_rows():
    assert continuous_weights(Gaussian(torch.rand(3), torch.ones(3)), 0).shape == (3, 0)
    assert continuous_weights(Gaussian(torch.rand(0), torch.ones(0)), 4).shape == (0, 4)
    plane = Gaussian2D(torch.rand(3, 2), torch.eye(2))
    assert continuous_weights(plane, (0, 4)).shape == (3, 0)


def test_bad_input_is_named():
    line, plane = Gaussian(torch.zeros(3), torch.ones(3)), Gaussian2D(torch.zeros(3, 2), torch.eye(2))
    with pytest.raises(ShapeError, match=r"size must be the number of values.*; got \(2, 2\)"):
        continuous_weights(line, (2, 2))
    with pytest.raises(ShapeError, match=r"size must be \(h, w\), for one in the plane; got 4"):
        continuous_weights(plane, 4)
    with pytest.raises(ShapeError, match=r"size must be at least 0; got -1"):
        continuous_weights(line, -1)
    with pytest.raises(ShapeError, match=r"shape must be \(h, w\), two whole numbers.*; got \(2, 2, 2\)"):
        continuous_weights(plane, (2, 2, 2))
    with pytest.raises(DtypeError, match=r"mask must be boolean.*; got torch.float32. Use mask.bool\(\)"):
        continuous_weights(line, 4, mask=torch.ones(4))
    with pytest.raises(ShapeError, match=r"mask must be \(..., n\) with n=4; got \(5,\)"):
        continuous_weights(line, 4, mask=torch.ones(5).bool())
    with pytest.raises(
        ShapeError, match=r"mask must be .* with the axes of the density, \(3,\); got \(2, 4\)"
    ):
        continuous_weights(line, 4, mask=torch.ones(2, 4).bool())
    for ridge in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=f"ridge must be above 0 and finite; got {ridge}"):
            continuous_weights(line, 4, ridge=ridge)
    for basis in (0, 2.5, True):
        with pytest.raises(ValueError, match=f"basis must be a number of functions per axis.*; got {basis}"):
            continuous_weights(line, 4, basis=basis)
