"""α-entmax against high precision: weights and derivatives, first and second, for every kind of row and α."""

import math
from collections import Counter
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
import torch
from torch.func import jacfwd, jacrev, vmap

from regard.core.errors import DtypeError, ShapeError
from regard.kernels.row_maps.entmax_operator import by_alpha, by_scores
from regard.kernels.row_maps.entmax_reference import entmax_reference
from regard.maps.entmax import Entmax, entmax
from regard.maps.entmax15 import entmax15
from regard.maps.softmax import softmax
from regard.maps.sparsemax import sparsemax
from regard.maps.table import MAPS, facts_of

INF, NAN = float("inf"), float("nan")
ALPHAS = [1, 1.01, 1.1, 1.25, 1.5, 2, 3, 10]
GENTLE = [1, 1.01, 1.1, 1.3, 1.5, 1.8, 2]
DIGITS = {torch.float32: 1e-6, torch.float64: 1e-12}
each_dtype = pytest.mark.parametrize("dtype", DIGITS)


def given_per_row(alpha, scores):
    """α as a tensor: never handed on to softmax, entmax15 or sparsemax."""
    return torch.full((*scores.shape[:-1], 1), alpha, dtype=torch.float64)


def exact(theta, alpha):
    """pⱼ = [m^β + β(θⱼ − max θ)]₊^{1/β}, by halving the interval of m, the largest weight, in many digits."""
    with mpmath.workdps(
        25 + 15 * max(1, math.ceil(alpha - 1))
    ):  # p may be of the order of a root of the digits
        beta, top, count = mpmath.mpf(alpha) - 1, mpmath.mpf(max(theta)), Counter(theta)
        u = {x: mpmath.mpf(x) - top for x in count}
        if beta == 0:
            total = sum(count[x] * mpmath.exp(u[x]) for x in count)
            return [mpmath.exp(u[x]) / total for x in theta]

        def at(m):
            return {x: (m**beta + beta * u[x]) ** (1 / beta) for x in count if m**beta + beta * u[x] > 0}

        low, high = mpmath.mpf(1) / len(theta), mpmath.mpf(1)
        for _ in range(int(mpmath.mp.prec)):
            middle = (low + high) / 2
            less = sum(count[x] * p for x, p in at(middle).items()) < 1
            low, high = (middle, high) if less else (low, middle)
        p = at(high)
        return [p.get(x, mpmath.mpf(0)) for x in theta]


def bisected(theta, alpha):
    """The same for rows (rows, n), in NumPy's longest numbers: for rows too long for many digits."""
    if alpha > 9:  # where they are not long enough, but few keys can matter
        near = theta > theta.max(-1, keepdims=True) - 1 / (alpha - 1)
        p = np.zeros_like(theta)
        for row, some, weights in zip(theta, near, p, strict=True):
            weights[some] = [float(x) for x in exact(row[some].tolist(), alpha)]
        return p
    u = (theta - theta.max(-1, keepdims=True)).astype(np.longdouble)
    if alpha == 1:
        p = np.exp(u)
        return p / p.sum(-1, keepdims=True)
    beta = np.longdouble(alpha) - 1
    low, high = np.full_like(u[:, :1], 1 / u.shape[1]), np.ones_like(u[:, :1])
    for _ in range(70):
        middle = (low + high) / 2
        above = (np.maximum(middle**beta + beta * u, 0) ** (1 / beta)).sum(-1, keepdims=True) >= 1
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.maximum(high**beta + beta * u, 0) ** (1 / beta)


def assert_agrees(scores, alpha, want):
    p = entmax(scores, given_per_row(alpha, scores))
    assert p.dtype == scores.dtype
    torch.testing.assert_close(p.double(), want, rtol=0, atol=DIGITS[scores.dtype])
    torch.testing.assert_close(
        p.double().sum(-1), torch.ones(p.shape[:-1], dtype=torch.float64), rtol=0, atol=2e-6
    )


@each_dtype
@pytest.mark.parametrize("alpha", [1 + 1e-12, 1 + 1e-6, 1.9, 2.01, 4])
@pytest.mark.parametrize(
    "theta",
    [
        [0.0] * 7,
        [1e30, 1e30, 0.0, -1e30],
        [1e30, 1.0, 0.0],
        [1000.0625, 1000.0, 999.9375, 900.0],
        [0.0, -1 / 3, -1 / 3, -1 / 3 + 2**-24, -1 / 3 - 2**-24],  # about where keys leave at α = 4
        [0.0, -1.0, -0.5, -INF],
        [-1e-30, -2e-30, 0.0],
    ],
)
def test_agrees_on_awkward_rows(dtype, alpha, theta):
    scores = torch.tensor(theta, dtype=dtype)
    finite = [x for x in scores.tolist() if x > -INF]
    want = [float(x) for x in exact(finite, alpha)] + [0.0] * (len(theta) - len(finite))
    assert_agrees(scores, alpha, torch.tensor(want, dtype=torch.float64))


@pytest.mark.parametrize(
    ("alpha", "n"), [*product(ALPHAS, (63, 65, 130, 1031)), *product((1.1, 2, 3), [65_536])]
)
def test_agrees_on_long_rows(alpha, n):
    """Normal, flat, peaked, tied, equal, and one score above a plateau; in both precisions."""
    rng = np.random.default_rng(n)
    normal = rng.standard_normal(n)
    rows = [
        normal,
        normal / 10,
        normal * 5,
        np.round(normal * 4) / 4,
        np.zeros(n),
        np.where(np.arange(n) == 5, 0.25, 0),
    ]
    theta = np.stack(rows if n < 65_536 else [normal / 3]).astype(np.float32)
    want = torch.from_numpy(bisected(theta.astype(np.float64), alpha).astype(np.float64))
    for dtype in DIGITS:
        assert_agrees(torch.from_numpy(theta).to(dtype), alpha, want)


@each_dtype
def test_the_dedicated_maps_are_special_cases(dtype):
    scores = torch.randn(6, 150, dtype=dtype)
    for alpha, special in ((1, softmax), (1.5, entmax15), (2, sparsemax)):
        assert torch.equal(entmax(scores, alpha), special(scores))
        p = entmax(scores, given_per_row(alpha, scores))
        torch.testing.assert_close(p, special(scores), rtol=0, atol=DIGITS[dtype])
    assert torch.equal(entmax(scores), entmax15(scores))


def test_large_alpha_tends_to_argmax():
    scores = torch.randn(5, 90, dtype=torch.float64)
    hard = torch.nn.functional.one_hot(scores.argmax(-1), 90).double()
    distances = [(entmax(scores, alpha) - hard).abs().amax().item() for alpha in (2.5, 10.0, 100.0, 1e4, INF)]
    assert distances == sorted(distances, reverse=True)
    assert distances[-2:] == [0, 0]
    assert entmax(torch.tensor([1.0, 0.0, 1.0]), INF).tolist() == [0.5, 0, 0.5]


def test_support_shrinks_as_alpha_grows():
    scores = torch.randn(200, 40, dtype=torch.float64)
    supports = [entmax(scores, given_per_row(alpha, scores)) > 0 for alpha in (1, 1.2, 1.7, 2, 2.5, 5)]
    assert all(bool((smaller <= larger).all()) for larger, smaller in pairwise(supports))


def slope_by_differences(theta, alpha):
    """∂p/∂α in many digits, from the left and the right, or from the right at α = 1."""
    with mpmath.workdps(60):
        h = mpmath.mpf(10) ** -12
        if alpha == 1:
            at = [exact(theta, alpha + k * h) for k in range(3)]
            return [float((-3 * a + 4 * b - c) / (2 * h)) for a, b, c in zip(*at, strict=True)]
        low, high = exact(theta, alpha - h), exact(theta, alpha + h)
        return [float((b - a) / (2 * h)) for a, b in zip(low, high, strict=True)]


@pytest.mark.parametrize("alpha", [1, 1 + 1e-10, 1 + 1e-6, 1.001, 1.05, 1.4, 1.9, 2, 2.5, 6])
def test_slope_in_alpha(alpha):
    theta = torch.tensor([0.3, -0.2, 1.1, 0.93, -3.0], dtype=torch.float64)
    a = torch.tensor([alpha], dtype=torch.float64)
    want = torch.tensor(slope_by_differences(theta.tolist(), alpha), dtype=torch.float64)
    torch.testing.assert_close(jacfwd(entmax, argnums=1)(theta, a).squeeze(-1), want, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(by_alpha(entmax(theta, a), a), want, rtol=1e-8, atol=1e-10)
    for j in range(5):  # the kernel
        b = a.clone().requires_grad_()
        (slope,) = torch.autograd.grad(entmax(theta, b)[j], b)
        assert slope.item() == pytest.approx(want[j].item(), rel=1e-8, abs=1e-10)


def test_slope_in_alpha_is_continuous_at_one():
    theta = torch.randn(4, 30, dtype=torch.float64)
    p = softmax(theta)
    log_p = p.log()
    limit = (p * (p * log_p**2).sum(-1, keepdim=True) - p * log_p**2) / 2
    for beta in (0, 1e-300, 1e-15, 1e-12, 1e-9):
        a = given_per_row(1 + beta, theta).requires_grad_()
        g = torch.randn(4, 30, dtype=torch.float64)
        (slope,) = torch.autograd.grad(entmax(theta, a), a, g)
        torch.testing.assert_close(
            slope, (limit * g).sum(-1, keepdim=True), rtol=0, atol=1e-7 if beta else 1e-12
        )


@each_dtype
@pytest.mark.parametrize("alpha", [*GENTLE, 2.2, 3, 10])
@pytest.mark.parametrize("scale", [0.1, 1, 5])
@pytest.mark.parametrize("n", [3, 64, 67, 300, 2500])
def test_kernel_and_formula_have_the_same_gradients(dtype, alpha, scale, n):
    g = torch.Generator().manual_seed(n)
    x = torch.randn(3, n, generator=g, dtype=dtype) * scale
    a = given_per_row(alpha, x).requires_grad_()
    x.requires_grad_()
    p = entmax(x, a)
    gradient = torch.randn(p.shape, generator=g, dtype=dtype)
    by_kernel = torch.autograd.grad(p, (x, a), gradient, retain_graph=True)
    q = p.detach().double()
    to_scores = by_scores(q, a.detach(), gradient.double())
    to_alpha = (by_alpha(q, a.detach()) * gradient).sum(-1, keepdim=True)
    loose = 1e-10 if dtype == torch.float64 else 3e-5
    assert by_kernel[0].dtype == dtype
    torch.testing.assert_close(by_kernel[0].double(), to_scores, rtol=loose, atol=loose)
    torch.testing.assert_close(by_kernel[1], to_alpha, rtol=loose, atol=loose)


@pytest.mark.parametrize("alpha", [1, 1.3, 2, 5, 100, 1e4])
def test_gradients_stay_finite_where_weights_are_tiny(alpha):
    x = torch.tensor(
        [[0.0, -1 / 99, -1 / 99 + 1e-9], [0.0, 0.0, 0.0], [0.0, -90.0, -1e30]], requires_grad=True
    )
    a = given_per_row(alpha, x).requires_grad_()
    p = entmax(x, a)
    gradient = torch.tensor([1.0, -2.0, 3.0]).expand(3, 3)
    for create_graph in (False, True):
        to_scores, to_alpha = torch.autograd.grad(
            p, (x, a), gradient, retain_graph=True, create_graph=create_graph
        )
        assert to_scores.isfinite().all()
        assert to_alpha.isfinite().all()


def test_transforms_agree_with_each_other():
    x = torch.randn(3, 6, dtype=torch.float64)
    a = torch.tensor([[1.2], [1.7], [2.4]], dtype=torch.float64)
    want = torch.stack(
        [torch.autograd.functional.jacobian(lambda row, k=k: entmax(row, a[k]), x[k]) for k in range(3)]
    )
    torch.testing.assert_close(vmap(jacrev(entmax))(x, a), want)
    torch.testing.assert_close(vmap(jacfwd(entmax))(x, a), want)
    torch.testing.assert_close(vmap(jacrev(entmax), in_dims=(0, None))(x, a[0])[0], want[0])
    torch.testing.assert_close(vmap(jacrev(entmax), in_dims=(None, 0))(x[1], a)[1], want[1])
    torch.testing.assert_close(vmap(lambda row: entmax(row, 1.2))(x)[0], entmax(x[0], 1.2))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiles_with_what_it_learns(backend):
    layer, x = Entmax(1.3, learn_alpha=True, heads=2), torch.randn(3, 2, 4, 9, requires_grad=True)
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    got, want = compiled(x), layer(x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)
    grads = (torch.autograd.grad(p.square().sum(), (x, *layer.parameters())) for p in (got, want))
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("n", [8, 200])
def test_every_row_has_its_own_alpha(n):
    x = torch.randn(7, n, dtype=torch.float64)
    alphas = torch.tensor([1, 1.2, 1.5, 2, 2.5, 1.2, INF], dtype=torch.float64)
    p = entmax(x, alphas.unsqueeze(-1))
    for row, alpha, weights in zip(x, alphas.tolist(), p, strict=True):
        torch.testing.assert_close(weights, entmax(row, alpha), rtol=0, atol=1e-12)


def test_alpha_broadcasts():
    x = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    for shape in ((), (1,), (4, 1), (3, 1, 1), (2, 1, 1, 1), (2, 3, 4, 1)):
        a = (1.1 + torch.rand(shape, dtype=torch.float64)).requires_grad_()
        p = entmax(x, a)
        full = a.detach().expand(2, 3, 4, 1).clone().requires_grad_()
        torch.testing.assert_close(p, entmax(x, full))
        weight = torch.randn(5, dtype=torch.float64)
        (one,) = torch.autograd.grad((p * weight).sum(), a)
        (all_rows,) = torch.autograd.grad((entmax(x, full) * weight).sum(), full)
        torch.testing.assert_close(one, all_rows.sum_to_size(shape) if shape else all_rows.sum())


def test_a_precise_alpha_serves_imprecise_scores():
    x = torch.randn(3, 20)
    want = entmax(x.double(), 1.3).float()
    torch.testing.assert_close(entmax(x, 1.3), want, rtol=0, atol=1e-7)
    torch.testing.assert_close(entmax(x, torch.tensor(1.3, dtype=torch.float64)), want, rtol=0, atol=1e-7)


@each_dtype
@pytest.mark.parametrize("alpha", [1, 1 + 1e-9, 1.1, 1.5, 2, 2.2, 4, 10, INF])
def test_the_reference_agrees_with_the_kernel(dtype, alpha):
    for scale in (0.1, 1, 5):
        x = torch.randn(5, 130, dtype=dtype) * scale
        x[0, 3:] = -INF
        x[1] = -INF
        x[2, ::2] = x[2, 0]
        x[3, 5] = NAN
        a = given_per_row(alpha, x)
        loose = 1e-10 if dtype == torch.float64 else 2e-6
        torch.testing.assert_close(entmax_reference(x, a), entmax(x, a), rtol=0, atol=loose, equal_nan=True)


@pytest.mark.parametrize("alpha", [0.99, -1, NAN, -INF])
def test_alpha_below_one_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha must be at least 1; got .*Use 1 for softmax"):
        entmax(torch.zeros(3), alpha)
    with pytest.raises(ValueError, match="alpha must be at least 1; got .*Use 1 for softmax"):
        entmax(torch.zeros(2, 3), torch.tensor([[1.5], [alpha]]))
    with pytest.raises(ValueError, match="alpha must be at least 1; got"):
        Entmax(alpha)
    unseen = vmap(entmax, in_dims=(0, 0))(torch.zeros(2, 3), torch.tensor([[1.5], [alpha]]))
    assert unseen[0].isfinite().all()
    assert unseen[1].isnan().all()


def test_bad_input_is_named():
    x = torch.zeros(2, 3)
    with pytest.raises(ShapeError, match=r"alpha must broadcast to one number per row, \(2, 1\); got \(2,\)"):
        entmax(x, torch.ones(2))
    with pytest.raises(ShapeError, match=r"got \(1, 1, 1\)"):
        entmax(x, torch.ones(1, 1, 1))
    with pytest.raises(DtypeError, match=r"alpha must be float.*; got torch.int64"):
        entmax(x, torch.tensor(2))
    with pytest.raises(DtypeError, match=r"scores must be float.*; got torch.int64"):
        Entmax(learn_alpha=True)(torch.zeros(3, dtype=torch.long))
    with pytest.raises(
        ShapeError, match=r"scores must be \(..., heads, m, n\) with heads=4; got \(2, 3, 5\)"
    ):
        Entmax(learn_alpha=True, heads=4)(torch.zeros(2, 3, 5))
    with pytest.raises(ValueError, match="alpha = 1 \\+ σ\\(a\\) starts between 1 and 2; got 2"):
        Entmax(2, learn_alpha=True)
    with pytest.raises(ValueError, match="heads must be at least 1; got 0"):
        Entmax(heads=0)


def test_the_module_learns_one_alpha_for_each_head():
    layer = Entmax(1.4, learn_alpha=True, heads=3)
    assert layer.a.shape == (3,)
    torch.testing.assert_close(layer.alpha, torch.full((3,), 1.4))
    x = torch.randn(2, 3, 4, 20)
    torch.testing.assert_close(layer(x), entmax(x, torch.full((3, 1, 1), 1.4)))
    size = (layer(x).square().sum((0, 2, 3)) * torch.tensor([1.0, -1.0, 0.0])).sum()
    size.backward()
    up, down, still = layer.a.grad.tolist()  # a larger α is a more peaked p
    assert up > 0 > down
    assert still == 0
    again = Entmax(learn_alpha=True, heads=3)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(x), layer(x))
    assert "heads=3" in repr(layer)


def test_the_module_with_one_alpha():
    x = torch.randn(2, 20)
    assert torch.equal(Entmax()(x), entmax15(x))
    assert torch.equal(Entmax(1.2)(x), entmax(x, 1.2))
    assert Entmax(1.2).alpha == 1.2
    assert not list(Entmax(1.2).parameters())
    assert "alpha=1.2" in repr(Entmax(1.2))
    one = Entmax(1.2, learn_alpha=True)
    for shape in ((20,), (2, 20), (3, 2, 20)):
        assert one(torch.randn(shape)).shape == shape
    assert facts_of(one) is MAPS["entmax"]


def test_learning_alpha_reaches_a_wanted_sparsity():
    torch.manual_seed(0)
    layer, scores = Entmax(1.2, learn_alpha=True), torch.randn(50, 30)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    want = entmax(scores, 1.7)
    for _ in range(200):
        optimizer.zero_grad()
        (layer(scores) - want).square().sum().backward()
        optimizer.step()
    assert layer.alpha.item() == pytest.approx(1.7, abs=0.01)


@pytest.mark.parametrize("alpha", [1.3, 2.5, torch.tensor(1.7, device="meta")])
def test_the_meta_device(alpha):
    x = torch.randn(2, 5, device="meta", requires_grad=True)
    entmax(x, alpha).sum().backward()
    assert x.grad.shape == x.shape
