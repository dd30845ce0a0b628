"""Tsallis entropies and support sizes, against their definition in many digits."""

import math

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jacrev, vmap

from regard.core.errors import DtypeError, ShapeError
from regard.maps.entmax import entmax
from regard.maps.entropies import support_size, tsallis

ALPHAS = [1, 1 + 1e-9, 1.01, 1.5, 2, 3, 10]


def definition(p, alpha):
    with mpmath.workdps(60):
        p, alpha = [mpmath.mpf(x) for x in p], mpmath.mpf(alpha)
        if alpha == 1:
            return float(-sum(x * mpmath.log(x) for x in p if x))
        return float(sum(x - x**alpha for x in p) / (alpha * (alpha - 1)))


@pytest.mark.parametrize("alpha", ALPHAS)
@given(theta=st.lists(st.floats(-4, 4), min_size=1, max_size=6))
def test_agrees_with_its_definition(alpha, theta):
    p = entmax(torch.tensor(theta, dtype=torch.float64), 1.5)
    assert tsallis(p, alpha).item() == pytest.approx(definition(p.tolist(), alpha), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_extremes(alpha):
    one, equal = (
        torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64),
        torch.full((8,), 1 / 8, dtype=torch.float64),
    )
    assert tsallis(one, alpha).item() == 0
    most = math.log(8) if alpha == 1 else -math.expm1((1 - alpha) * math.log(8)) / (alpha * (alpha - 1))
    assert tsallis(equal, alpha).item() == pytest.approx(most, rel=1e-12)
    assert tsallis(equal, float("inf")).item() == 0


def test_shannon_and_gini():
    p = torch.rand(4, 9, dtype=torch.float64)
    p = p / p.sum(-1, keepdim=True)
    torch.testing.assert_close(tsallis(p), torch.distributions.Categorical(p).entropy())
    torch.testing.assert_close(tsallis(p, 2.0), (1 - (p**2).sum(-1)) / 2)


@pytest.mark.parametrize("alpha", [1 + 1e-3, 1.3, 2.0, 3.5])
def test_first_and_second_gradients(alpha):
    p = torch.softmax(torch.randn(3, 5, dtype=torch.float64), -1).requires_grad_()
    a = torch.full((3, 1), alpha, dtype=torch.float64, requires_grad=True)
    assert gradcheck(tsallis, (p, a))
    assert gradgradcheck(tsallis, (p, a))
    assert gradcheck(lambda p: tsallis(p, 1.0), (p,))
    assert gradgradcheck(lambda p: tsallis(p, 1.0), (p,))


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 4.0])
def test_gradients_are_finite_at_zero(alpha):
    p = torch.tensor([0.25, 0.0, 0.75, 0.0], dtype=torch.float64, requires_grad=True)
    a = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    to_p, to_a = torch.autograd.grad(tsallis(p, a), (p, a), create_graph=True)
    assert to_a.isfinite()
    wanted = 0 if alpha == 1 else 1 / (alpha * (alpha - 1))  # of (p − p^α)/(α(α − 1)) at p = 0
    assert to_p[1].item() == pytest.approx(wanted)
    (again,) = torch.autograd.grad(to_p.sum() + to_a, p)
    assert again.isfinite().all()


def test_entmax_maximises_its_own_entropy():
    theta = torch.randn(20, 6, dtype=torch.float64)
    others = torch.softmax(torch.randn(300, 1, 6, dtype=torch.float64) * 2, -1)
    for alpha in (1.0, 1.3, 2.0, 3.0):
        p = entmax(theta, alpha)
        best = (p * theta).sum(-1) + tsallis(p, alpha)
        assert ((others * theta).sum(-1) + tsallis(others, alpha) <= best + 1e-12).all()


def test_alpha_per_row_and_transforms():
    p = torch.softmax(torch.randn(2, 3, 5, dtype=torch.float64), -1)
    alpha = 1 + torch.rand(3, 1, dtype=torch.float64)
    want = torch.stack([tsallis(p[:, k], alpha[k].item()) for k in range(3)], 1)
    torch.testing.assert_close(tsallis(p, alpha), want)
    torch.testing.assert_close(vmap(jacrev(tsallis))(p[0], alpha), jacrev(tsallis)(p[0], alpha).diagonal().mT)
    compiled = torch.compile(tsallis, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(p, alpha), want)


def test_half_precision_and_no_keys():
    p = torch.softmax(torch.randn(3, 8), -1)
    assert tsallis(p.bfloat16(), 1.5).dtype == torch.bfloat16
    torch.testing.assert_close(tsallis(p.half(), 1.5), tsallis(p.half().float(), 1.5).half())
    assert tsallis(torch.zeros(2, 0), 1.5).tolist() == [0, 0]


def test_support_size():
    p = torch.tensor([[0.5, 0.0, 0.5], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert support_size(p).tolist() == [2, 0, 1]
    assert support_size(torch.zeros(2, 0)).tolist() == [0, 0]


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="alpha must be at least 1; got 0.5"):
        tsallis(torch.ones(1), 0.5)
    with pytest.raises(ShapeError, match=r"alpha must broadcast to one number per row, \(2, 1\); got \(2,\)"):
        tsallis(torch.ones(2, 3), torch.ones(2))
    with pytest.raises(DtypeError, match="weights must be float"):
        tsallis(torch.ones(2, dtype=torch.long))
    with pytest.raises(ShapeError, match=r"weights must be \(..., n\)"):
        support_size(torch.tensor(1.0))
    with pytest.raises(TypeError, match="weights must be a tensor"):
        support_size([1.0])
