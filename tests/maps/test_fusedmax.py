"""Fusedmax: the definition, long rows by their optimality conditions, and padding that changes nothing."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jacfwd, jacrev, vmap

import reference
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


@given(
    theta=st.lists(score, min_size=1, max_size=5), strength=st.floats(0.001, 1), temperature=st.floats(0.2, 3)
)
def test_agrees_with_its_definition(theta, strength, temperature):
    p = fusedmax(torch.tensor(theta, dtype=torch.float64), strength, temperature)
    assert p.tolist() == pytest.approx(reference.fusedmax(theta, strength, temperature), abs=1e-12)


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


@pytest.mark.parametrize("n", [6, 200])
@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_padding_anywhere_changes_nothing(n, scale):
    torch.manual_seed(n)
    scores = (torch.randn(8, n, dtype=torch.float64) * scale).requires_grad_()
    gradient = torch.randn(8, n, dtype=torch.float64)
    at = torch.rand(8, n + 7).argsort(-1)[:, :n].sort(-1).values  # the keys keep their order
    wide = torch.full((8, n + 7), -INF, dtype=torch.float64).scatter(-1, at, scores)
    p = fusedmax(wide)
    assert p.gather(-1, at).equal(fusedmax(scores))
    torch.testing.assert_close(p.sum(-1), torch.ones(8, dtype=torch.float64))
    (want,) = torch.autograd.grad(fusedmax(scores), scores, gradient)
    for create_graph in (False, True):  # by the kernel, by the formula
        (got,) = torch.autograd.grad(
            p.gather(-1, at), scores, gradient, retain_graph=True, create_graph=create_graph
        )
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [9, 700])
def test_both_backwards_agree_and_sum_to_0(dtype, n):
    torch.manual_seed(n)
    scores = (torch.randn(20, n, dtype=dtype) / 4).requires_grad_()
    p, g = fusedmax(scores), torch.randn(20, n, dtype=dtype)
    (by_kernel,) = torch.autograd.grad(p, scores, g, retain_graph=True)
    (by_formula,) = torch.autograd.grad(p, scores, g, create_graph=True)
    torch.testing.assert_close(by_kernel, by_formula, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(by_kernel.sum(-1), torch.zeros(20, dtype=dtype), rtol=0, atol=1e-5)
    assert (by_kernel[p == 0] == 0).all()


@pytest.mark.parametrize("strength", [0.05, 0.2])
def test_derivatives(strength):
    torch.manual_seed(0)
    scores = torch.randn(12, 7, dtype=torch.float64, requires_grad=True)
    hidden = torch.rand(12, 7) < 0.2
    hidden[3] = True

    def map(x, temperature=1.0):
        return fusedmax(x.masked_fill(hidden, -INF), strength, temperature)

    assert (map(scores).diff() == 0).any()
    assert gradcheck(map, scores, check_forward_ad=True)
    assert gradgradcheck(map, scores, check_fwd_over_rev=True)
    temperature = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    assert gradcheck(map, (scores, temperature))
    assert gradgradcheck(map, (scores, temperature))


def test_transforms():
    torch.manual_seed(0)
    scores = torch.randn(4, 6, dtype=torch.float64)
    scores[1, 2] = scores[2, 0] = -INF
    torch.testing.assert_close(vmap(fusedmax)(scores), fusedmax(scores))
    torch.testing.assert_close(vmap(fusedmax, in_dims=1)(scores.T), fusedmax(scores))
    jacobian = vmap(jacrev(fusedmax))(scores)
    rows = torch.stack([torch.autograd.functional.jacobian(fusedmax, row) for row in scores])
    torch.testing.assert_close(jacobian, rows)
    torch.testing.assert_close(vmap(jacfwd(fusedmax))(scores), rows)
    torch.testing.assert_close(jacobian, jacobian.mT)
    assert (vmap(jacrev(jacrev(fusedmax)))(scores) == 0).all()


def test_what_torch_would_answer_with_zeros_is_refused():
    with pytest.raises(NotImplementedError, match=r"Use torch.func.hessian or jacfwd\(jacrev\(...\)\)"):
        jacfwd(jacfwd(lambda x: fusedmax(x * x)))(torch.randn(5))


@pytest.mark.parametrize("grad", [False, True])
def test_compiles_into_one_graph(grad):
    scores = torch.randn(4, 6, dtype=torch.float64, requires_grad=grad)
    p = torch.compile(fusedmax, fullgraph=True, backend="aot_eager")(scores)
    torch.testing.assert_close(p, fusedmax(scores))
    if grad:
        gradient = torch.randn(4, 6, dtype=torch.float64)
        (got,) = torch.autograd.grad(p, scores, gradient)
        (want,) = torch.autograd.grad(fusedmax(scores), scores, gradient)
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_rows_that_cannot_be_mapped(dtype):
    scores = torch.randn(5, 7, dtype=dtype)
    scores[0] = -INF
    scores[1, 3], scores[1, 0] = NAN, -INF
    scores[2, 6] = INF
    scores[3, 1:] = -INF
    scores.requires_grad_()
    p = fusedmax(scores)
    (gradient,) = torch.autograd.grad(p, scores, torch.ones_like(p), retain_graph=True)
    (formula,) = torch.autograd.grad(p, scores, torch.ones_like(p), create_graph=True)
    torch.testing.assert_close(gradient, formula, equal_nan=True)
    assert (p[0] == 0).all()
    assert (gradient[0] == 0).all()
    assert p[1:3].isnan().all()
    assert gradient[1:3].isnan().all()
    assert p[3].tolist() == [1, 0, 0, 0, 0, 0, 0]
    torch.testing.assert_close(p[4], fusedmax(scores[4]))


def test_scores_of_any_size():
    for huge in (1e4, 1e30, 3e38):
        assert fusedmax(torch.tensor([0.0, huge, -huge, 1.0])).tolist() == [0, 1, 0, 0]
        p = fusedmax(torch.tensor([huge, huge, -huge, huge]))  # each stretch pays for its inner edge
        assert p.tolist() == pytest.approx([0.35, 0.35, 0, 0.3])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_float32_rounded(dtype):
    scores = torch.randn(4, 30).to(dtype)
    assert fusedmax(scores, 0.05, 0.7).equal(fusedmax(scores.float(), 0.05, 0.7).to(dtype))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5), (2, 0, 4)])
def test_nothing_gives_nothing(shape):
    scores = torch.zeros(shape, requires_grad=True)
    fusedmax(scores).sum().backward()
    assert scores.grad.shape == shape


def test_strides_axes_and_meta_tensors():
    scores = torch.randn(9, 4, 6).permute(1, 2, 0)
    assert fusedmax(scores).equal(fusedmax(scores.contiguous()))
    assert fusedmax(scores[1, 2]).equal(fusedmax(scores)[1, 2])
    assert fusedmax(torch.empty(4, 5, device="meta")).device.type == "meta"


def test_bad_input_is_refused_by_name():
    for strength in (-0.1, INF, NAN):
        with pytest.raises(ValueError, match=f"strength must be at least 0 and finite; got {strength}"):
            fusedmax(torch.zeros(3), strength)
    with pytest.raises(ValueError, match="temperature must be above 0; got 0"):
        fusedmax(torch.zeros(3), 0.1, 0.0)
