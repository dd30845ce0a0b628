"""Densities and their expectations, against quadrature; for every size of density against the basis."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate
from torch.autograd import gradcheck, gradgradcheck
from torch.func import hessian, jacfwd, jacrev, vmap

from regard.continuous import Basis, Gaussian, Gaussian2D, TruncatedParabola, TruncatedParaboloid
from regard.core.errors import DtypeError, ShapeError

INF, NAN = float("inf"), float("nan")
LINE, PLANE = (Gaussian, TruncatedParabola), (Gaussian2D, TruncatedParaboloid)
SIGMAS = [1e-4, 1e-3, 0.0035, 0.01, 0.05, 0.3, 1.0, 10.0, 100.0]
on_line = pytest.mark.parametrize("kind", LINE)
in_plane = pytest.mark.parametrize("kind", PLANE)


def real(*x):
    return torch.tensor(*x, dtype=torch.float64)


def basis(number=10, spacing=0.02, axes=1):
    return Basis.even(number, real([spacing] * axes))


def covariance(down, across, correlation):
    side = correlation * down * across
    return real([[down**2, side], [side, across**2]])


ELLIPSES = [
    covariance(0.3, 0.3, 0.0),
    covariance(0.3, 0.1, 0.5),
    covariance(0.5, 0.5, 0.99),
    covariance(0.02, 0.02, 0.3),
    covariance(0.01, 0.4, -0.6),
    covariance(1e-4, 2e-4, 0.3),
    covariance(0.3, 1.5, 0.9),
    covariance(100.0, 30.0, 0.2),
]


def by_pieces(density, of, reach):
    """∫ p(t) f(t) dt for f of one or more values, by Gauss–Legendre on many pieces of what counts."""
    mean, sigma = density.mean.item(), density.variance.sqrt().item()
    low, high = max(mean - reach * sigma, -9.0), min(mean + reach * sigma, 10.0)  # ψ is 0 further out
    points, shares = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(low, high, 401)
    half = (high - low) / 800  # not from the edges, which are rounded
    t = real((edges[:-1, None] + half * (1 + points)).ravel())
    return (real(np.tile(half * shares, 400)) * density.pdf(t)) @ of(t)


def over_ellipse(density, of, reach, rings=120, angles=600):
    """∫∫ p(t) f(t) dt over (t − μ)ᵀC⁻¹(t − μ) < reach², by rings and angles about the mean."""
    points, shares = np.polynomial.legendre.leggauss(rings)
    radius = reach * (points + 1) / 2
    phi = np.arange(angles) * 2 * math.pi / angles
    unit = real(np.stack([np.cos(phi), np.sin(phi)], -1))  # (angles, 2)
    L = torch.linalg.cholesky(density.covariance)
    t = (real(radius)[:, None, None] * (unit @ L.mT) + density.mean).reshape(-1, 2)
    ring = real(reach * shares / 2 * radius * 2 * math.pi / angles) * torch.linalg.det(L)
    share = ring.repeat_interleave(angles) * density.pdf(t)
    return sum(w @ of(x) for w, x in zip(share.split(20_000), t.split(20_000), strict=True))


@on_line
@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("mean", [0.37, -0.15, 1.0])
def test_on_the_line_against_quadrature(kind, sigma, mean):
    density = kind(real(mean), real(sigma**2))
    reach = 5**0.5 if kind is TruncatedParabola else 9.0
    for number in (1, 2, 10, 32):
        psi = basis(number)
        got, want = density.expect(psi), by_pieces(density, psi, reach)
        torch.testing.assert_close(got, want, rtol=0, atol=1e-11)


@on_line
def test_on_the_line_against_adaptive_quadrature(kind):
    density, psi = kind(real(0.4), real(0.04)), basis(5)
    for j, got in enumerate(density.expect(psi).tolist()):

        def product(t, j=j):
            return (density.pdf(real([t])) * psi(real([t]))[:, j]).item()

        ends = [x.item() for x in density.support] if kind is TruncatedParabola else (-2.0, 3.0)
        assert got == pytest.approx(integrate.quad(product, *ends, epsabs=1e-12)[0], abs=1e-10)


@in_plane
@pytest.mark.parametrize("which", range(len(ELLIPSES)))
@pytest.mark.parametrize("mean", [(0.4, 0.7), (-0.1, 0.5)])
def test_in_the_plane_against_quadrature(kind, which, mean):
    density = kind(real(mean), ELLIPSES[which])
    reach = 6**0.5 if kind is TruncatedParaboloid else 9.0
    psi = basis(10, 1 / 14, axes=2)
    if which == 7:  # rings about the mean do not see a basis this small
        want = over_square(density, psi)
    else:
        want = over_ellipse(density, psi, reach, angles=1600 if which == 6 else 600)
    torch.testing.assert_close(density.expect(psi), want, rtol=0, atol=1e-9)


def over_square(density, of):
    """∫∫ p(t) f(t) dt over [−1, 2]², where a density far wider than that is smooth."""
    points, shares = np.polynomial.legendre.leggauss(160)
    x, w = real(0.5 + 1.5 * points), real(1.5 * shares)
    t = torch.cartesian_prod(x, x)
    return ((w[:, None] * w).flatten() * density.pdf(t)) @ of(t)


def test_in_the_plane_against_adaptive_quadrature():
    density, psi = TruncatedParaboloid(real([0.4, 0.6]), covariance(0.2, 0.1, 0.4)), basis(2, 0.5, axes=2)
    E = density.support

    def product(x, y):
        t = real([[y, x]])
        return (density.pdf(t) * psi(t)[:, 1]).item()

    def edge(y, sign):  # where the row y of the ellipse begins and ends
        slope = E[0, 1] / E[0, 0]
        inside = (1 - (y - 0.4) ** 2 / E[0, 0]).clamp(min=0) * (E[1, 1] - slope * E[0, 1])
        return (0.6 + slope * (y - 0.4) + sign * inside.sqrt()).item()

    reach = E[0, 0].sqrt().item()
    ends = 0.4 - reach, 0.4 + reach, lambda y: edge(y, -1), lambda y: edge(y, 1)
    want, _ = integrate.dblquad(product, *ends, epsabs=1e-5, epsrel=1e-5)  # far more exact than it asks for
    assert density.expect(psi)[1].item() == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize("sigma", [1e-4, 0.1, 100.0])
def test_moments_and_support_of_the_parabola(sigma):
    density = TruncatedParabola(real(0.3), real(sigma**2))
    low, high = (x.item() for x in density.support)

    def moment(power):
        points, shares = np.polynomial.legendre.leggauss(8)
        t = real((low + high) / 2 + (high - low) / 2 * points)
        return ((density.pdf(t) * (t - 0.3) ** power) @ real(shares)).item() * (high - low) / 2

    assert [moment(0), moment(1) / sigma, moment(2) / sigma**2] == pytest.approx([1, 0, 1], abs=1e-9)
    outside = density.pdf(real([low - 1e-3 * sigma, high + 1e-3 * sigma]))
    assert outside.tolist() == [0, 0]
    assert (density.pdf(real([low + 1e-3 * sigma, high - 1e-3 * sigma])) > 0).all()


@pytest.mark.parametrize("C", ELLIPSES)
def test_moments_and_support_of_the_paraboloid(C):
    density = TruncatedParaboloid(real([0.4, 0.7]), C)

    def second(t):
        d = t - density.mean
        return torch.cat([torch.ones(len(t), 1), d, d[:, :1] * d, d[:, 1:] * d], -1).double()

    got = over_ellipse(density, second, 6**0.5, rings=10, angles=20)
    size = C.diagonal().mean()
    assert got[0].item() == pytest.approx(1, abs=1e-12)
    torch.testing.assert_close(got[1:3] / size.sqrt(), real([0.0, 0.0]))
    torch.testing.assert_close(got[3:].view(2, 2) / size, C / size)
    edge = density.mean + torch.linalg.cholesky(density.support) @ real([0.6, 0.8])
    inside = (edge - density.mean) * 0.999 + density.mean
    outside = (edge - density.mean) * 1.001 + density.mean
    assert density.pdf(inside[None]) > 0
    assert density.pdf(outside[None]) == 0


@pytest.mark.parametrize("scale", [1e-6, 0.3, 50.0])
def test_the_papers_parabola_has_this_threshold(scale):
    """[−τ − (t − μ)²/2σ²]₊, τ found by bisection so that it integrates to 1."""

    def mass(tau):
        radius = math.sqrt(-2 * scale * tau)
        return 2 * (-tau * radius - radius**3 / (6 * scale))

    low, high = 0.0, 1e6
    for _ in range(200):
        low, high = ((low + high) / 2, high) if mass(-(low + high) / 2) < 1 else (low, (low + high) / 2)
    t = real(np.linspace(-0.5, 0.5, 101)) * 2 * math.sqrt(2 * scale * low)
    want = (low - t**2 / (2 * scale)).clamp(min=0)
    torch.testing.assert_close(TruncatedParabola.of_score(real(0.0), real(scale)).pdf(t), want)


def test_the_papers_paraboloid_has_this_threshold():
    scale = covariance(0.3, 0.2, 0.5)
    density = TruncatedParaboloid.of_score(real([0.5, 0.5]), scale)
    t = torch.rand(200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    d = t - 0.5
    inside = density.pdf(t) > 0
    tau = -density.pdf(t) - ((d @ scale.inverse()) * d).sum(-1) / 2  # the same for all points inside
    assert 20 < inside.sum() < 180
    torch.testing.assert_close(tau[inside], tau[inside][:1].expand(inside.sum()))
    assert over_ellipse(density, lambda t: t.new_ones(len(t), 1), 6**0.5, 10, 20).item() == pytest.approx(1)


@on_line
@pytest.mark.parametrize("sigma", SIGMAS)
def test_float32_is_as_exact_as_it_can_be(kind, sigma):
    mean, variance = torch.tensor(0.37), torch.tensor(sigma**2)
    psi = Basis.even(32, torch.tensor([0.02]))
    got = kind(mean, variance).expect(psi)
    assert got.dtype == torch.float32
    want = kind(mean.double(), variance.double()).expect(Basis(32, psi.width.double()))
    torch.testing.assert_close(got, want.float(), rtol=1e-6, atol=1e-12)


@in_plane
@pytest.mark.parametrize("which", range(len(ELLIPSES)))
def test_float32_in_the_plane(kind, which):
    mean, C = torch.tensor([0.4, 0.7]), ELLIPSES[which].float()
    psi = Basis.even(10, torch.tensor([0.02, 0.02]))
    want = kind(mean.double(), C.double()).expect(Basis(10, psi.width.double()))
    torch.testing.assert_close(kind(mean, C).expect(psi), want.float(), rtol=1e-5, atol=1e-9)


@on_line
@pytest.mark.parametrize("sigma", [1e-3, 0.02, 0.2, 5.0])
def test_derivatives_on_the_line(kind, sigma):
    psi = basis(5, 0.2)
    mean = real([0.1, 0.5, 0.8]).requires_grad_()  # 0.5 is a centre
    log = real([2 * math.log(sigma)] * 3).requires_grad_()  # of the variance

    def expect(mean, log):
        return kind(mean, log.exp()).expect(psi)

    assert gradcheck(expect, (mean, log), check_forward_ad=True)
    assert gradgradcheck(expect, (mean, log), check_fwd_over_rev=True)


@in_plane
@pytest.mark.parametrize("C", [ELLIPSES[1], ELLIPSES[3], ELLIPSES[5]])
def test_derivatives_in_the_plane(kind, C):
    psi = basis(3, 0.3, axes=2)
    mean = real([0.4, 0.5]).requires_grad_()
    factor = torch.linalg.cholesky(C)
    change = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)

    def expect(mean, change):
        L = factor @ (torch.eye(2) + change)
        return kind(mean, L @ L.mT).expect(psi)

    assert gradcheck(expect, (mean, change), check_forward_ad=True)
    assert gradgradcheck(expect, (mean, change), check_fwd_over_rev=True)


def test_derivatives_across_narrow_and_wide_rows_at_once():
    psi = basis(4, 0.3)
    mean = real([0.3, 0.3, 0.3]).requires_grad_()
    log = real([-12.0, -4.2, -1.0]).requires_grad_()  # radius in widths from 0.02 to 4
    assert gradcheck(lambda m, v: TruncatedParabola(m, v.exp()).expect(psi), (mean, log))
    assert gradgradcheck(lambda m, v: TruncatedParabola(m, v.exp()).expect(psi), (mean, log))


@pytest.mark.parametrize("kappa", [0.2499999, 0.2500001])
def test_both_ways_meet_where_one_takes_over(kappa):
    from regard.continuous.smoothed import narrow, wide

    e = real(np.linspace(-9, 9, 181))
    by_sum = narrow(real(kappa), e)
    by_form = 0.75 * wide(real(kappa), e) / kappa**3
    torch.testing.assert_close(by_sum, by_form, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [*LINE, *PLANE])
def test_transforms_and_compiler(kind):
    plane = kind in PLANE
    psi = basis(4, 0.3, axes=2 if plane else 1)
    means = real([[0.2, 0.9], [0.5, 0.5]]) if plane else real([0.2, 0.5])
    variance = ELLIPSES[1] if plane else real(0.02)

    def expect(mean):
        return kind(mean, variance).expect(psi)

    want = torch.stack([torch.autograd.functional.jacobian(expect, mean) for mean in means])
    torch.testing.assert_close(vmap(jacrev(expect))(means), want)
    torch.testing.assert_close(vmap(jacfwd(expect))(means), want)
    torch.testing.assert_close(torch.autograd.functional.jacobian(expect, means[0], vectorize=True), want[0])
    total = torch.autograd.functional.hessian(lambda mean: expect(mean).square().sum(), means[0])
    torch.testing.assert_close(hessian(lambda mean: expect(mean).square().sum())(means[0]), total)
    torch._dynamo.reset()
    compiled = torch.compile(expect, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(means[0]), expect(means[0]))


@on_line
def test_shapes_broadcast(kind):
    density = kind(torch.rand(2, 3), torch.rand(3) + 0.1)
    assert density.pdf(torch.rand(7)).shape == (2, 3, 7)
    assert density.pdf(torch.rand(2, 3, 7)).shape == (2, 3, 7)
    assert density.expect(Basis.even(5, torch.tensor([0.1]))).shape == (2, 3, 5)
    each = density.expect(Basis.even(5, torch.tensor([[0.1], [0.2], [0.5]])))
    one = kind(density.mean[1, 2], density.variance[2]).expect(Basis.even(5, torch.tensor([0.5])))
    torch.testing.assert_close(each[1, 2], one)
    low, high = density.support
    assert (low < density.mean).all()
    assert (high > density.mean).all()


@in_plane
def test_shapes_broadcast_in_the_plane(kind):
    density = kind(torch.rand(2, 3, 2), torch.eye(2).expand(3, 2, 2))
    assert density.pdf(torch.rand(7, 2)).shape == (2, 3, 7)
    assert density.expect(Basis.even(5, torch.tensor([0.1, 0.2]))).shape == (2, 3, 25)
    assert density.variance.tolist() == torch.ones(3, 2).tolist()
    assert density.support.shape[-2:] == (2, 2)
    diagonal = density.support.diagonal(dim1=-2, dim2=-1)
    assert (diagonal == (INF if kind is Gaussian2D else 6)).all()


def test_the_basis_is_a_product_in_the_plane():
    psi = Basis.even(3, real([0.1, 0.7]))
    t = real([[0.2, 0.9], [0.5, 0.5]])
    down, across = Basis(3, psi.width[:1])(t[:, 0]), Basis(3, psi.width[1:])(t[:, 1])
    torch.testing.assert_close(psi(t), (down[:, :, None] * across[:, None]).flatten(1))
    assert psi.width.tolist() == [0.5, 0.7]
    assert psi.centres.tolist() == [0, 0.5, 1]
    assert Basis.even(1, real([0.1])).centres.tolist() == [0.5]


def test_far_away_nothing_is_expected():
    for kind in LINE:
        assert kind(real(50.0), real(0.01)).expect(basis()).tolist() == [0] * 10
    for kind in PLANE:
        assert kind(real([50.0, -9.0]), ELLIPSES[1]).expect(basis(axes=2)).abs().max() < 1e-20


@pytest.mark.parametrize("kind", LINE)
@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_a_variance_that_is_not_positive_is_named(kind, bad):
    with pytest.raises(ValueError, match=f"variance must be above 0; got {bad}"):
        kind(torch.zeros(2), torch.tensor([1.0, bad]))
    with pytest.raises(ValueError, match=f"scale must be above 0; got {bad}"):
        TruncatedParabola.of_score(torch.zeros(2), torch.tensor([1.0, bad]))


@in_plane
def test_a_covariance_that_is_not_one_is_named(kind):
    for bad in ([[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]], [[-1.0, 0.0], [0.0, -1.0]]):
        with pytest.raises(ValueError, match="covariance must be positive definite; got"):
            kind(torch.zeros(2), torch.tensor(bad))
        with pytest.raises(ValueError, match="scale must be positive definite; got"):
            TruncatedParaboloid.of_score(torch.zeros(2), torch.tensor(bad))
    with pytest.raises(ValueError, match="covariance must be symmetric; got"):
        kind(torch.zeros(2), torch.tensor([[1.0, 0.5], [0.4, 1.0]]))
    with pytest.raises(
        ShapeError, match=r"mean must be .* and covariance \(..., 2, 2\); got \(2,\) and \(3, 3\)"
    ):
        kind(torch.zeros(2), torch.eye(3))
    with pytest.raises(ShapeError, match=r"covariance must have the batch axes of mean \(3, 2\); got"):
        kind(torch.zeros(3, 2), torch.eye(2).expand(4, 2, 2))


@on_line
def test_bad_input_is_named(kind):
    with pytest.raises(ShapeError, match=r"variance must have the batch axes of mean \(3,\); got \(2,\)"):
        kind(torch.zeros(3), torch.ones(2))
    with pytest.raises(DtypeError, match="variance must be torch.float32 as mean is; got torch.float64"):
        kind(torch.zeros(3), torch.ones(3).double())
    with pytest.raises(TypeError, match="mean must be a tensor; got float"):
        kind(0.5, torch.ones(()))
    with pytest.raises(ShapeError, match=r"basis must be on the line: widths \(..., 1\); got \(2,\)"):
        kind(torch.zeros(3), torch.ones(3)).expect(Basis.even(4, torch.ones(2)))
    with pytest.raises(ValueError, match="basis must be a number of functions per axis.*; got 0"):
        Basis(0, torch.ones(1))
    with pytest.raises(
        ValueError, match="width must be at least the distance between centres, 0.25; got 0.1"
    ):
        Basis(5, torch.tensor([0.1]))
    with pytest.raises(ShapeError, match=r"width must be \(..., 1\) or \(..., 2\); got \(3,\)"):
        Basis(5, torch.ones(3))


def test_nan_is_shown_not_refused():
    for kind in LINE:
        r = kind(real([0.5, 0.5]), real([NAN, 1.0])).expect(basis())
        assert r[0].isnan().all()
        assert r[1].isfinite().all()
    for kind in PLANE:
        C = torch.stack([torch.full((2, 2), NAN), torch.eye(2)]).double()
        r = kind(real([[0.5, 0.5]] * 2), C).expect(basis(axes=2))
        assert r[0].isnan().all()
        assert r[1].isfinite().all()
