"""What must be true of every row map. A new map is tested the moment it is entered into the table."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import jacrev, vmap

import reference
from regard import MAPS
from regard.core.errors import DtypeError, ShapeError

ROWS = [name for name, entry in MAPS.items() if entry.acts_on == "row" and not entry.stochastic]
every_map = pytest.mark.parametrize("name", ROWS)
smooth_map = pytest.mark.parametrize("name", [name for name in ROWS if MAPS[name].differentiable])
thetas = st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=6)


def weights(name, theta, dtype=torch.float64):
    return MAPS[name](torch.tensor(theta, dtype=dtype))


def many(n=12, rows=400, dtype=torch.float64):
    """Rows of scores flat, normal and peaked, some with ties."""
    g = torch.Generator().manual_seed(0)
    theta = torch.randn(rows, n, generator=g, dtype=dtype) * torch.logspace(-1, 1, rows, dtype=dtype)[:, None]
    theta[::5] = theta[::5].round()
    return theta


@every_map
@given(theta=thetas)
def test_agrees_with_its_definition(name, theta):
    assert weights(name, theta).tolist() == pytest.approx(getattr(reference, name)(theta), abs=1e-9)


@every_map
@given(theta=thetas)
def test_float32_agrees_with_its_definition(name, theta):
    theta = torch.tensor(theta, dtype=torch.float32).tolist()
    assert weights(name, theta, torch.float32).tolist() == pytest.approx(
        getattr(reference, name)(theta), abs=1e-6
    )


@every_map
@given(theta=thetas, at=st.integers(0, 6))
def test_minus_infinity_is_never_looked_at(name, theta, at):
    at = min(at, len(theta))
    p = weights(name, [*theta[:at], -math.inf, *theta[at:]])
    assert p[at] == 0
    torch.testing.assert_close(torch.cat([p[:at], p[at + 1 :]]), weights(name, theta))


@every_map
def test_its_entry_says_neither_more_nor_less(name):
    """Each fact holds on every row if it is claimed, and fails on some row if it is not."""
    entry, theta = MAPS[name], many()
    p = entry(theta)
    in_simplex = ((p >= 0) & ((p.sum(-1, keepdim=True) - 1).abs() < 1e-9)).all(-1)
    assert entry.simplex == bool(in_simplex.all()), "simplex"
    assert entry.sparse == bool((p == 0).any()), "sparse"
    higher, heavier = (x.unsqueeze(-1) - x.unsqueeze(-2) for x in (theta, p))  # (rows, n, n)
    assert entry.ordered == bool((heavier[higher > 0] >= -1e-12).all()), "ordered"
    turned = theta.roll(1, -1)
    untied = (theta.unsqueeze(-1) == theta.unsqueeze(-2)).sum((-1, -2)) == theta.shape[
        -1
    ]  # ties go to the first
    alike = torch.isclose(entry(turned), p.roll(1, -1), atol=1e-9)[untied].all()
    assert entry.neighbours != bool(alike), "neighbours"
    x = theta.clone().requires_grad_()
    g = torch.randn(p.shape, generator=torch.Generator().manual_seed(1), dtype=p.dtype)
    (grad,) = torch.autograd.grad(entry(x), x, g)
    assert entry.differentiable == bool((grad != 0).any()), "differentiable"
    assert torch.equal(entry(theta), p), "stochastic"
    assert entry.says.endswith(".")


@smooth_map
def test_first_and_second_gradients(name):
    g = torch.Generator().manual_seed(2)
    x = (torch.randn(4, 6, generator=g, dtype=torch.float64) * 1.5).requires_grad_()
    hidden = torch.rand(4, 6, generator=g) < 0.3
    hidden[3] = True  # a row of nothing
    for function in (MAPS[name], lambda x: MAPS[name](x.masked_fill(hidden, -math.inf))):
        assert torch.autograd.gradcheck(function, x)
        assert torch.autograd.gradgradcheck(function, x)


@every_map
def test_a_row_of_nothing_has_weight_and_gradient_zero(name):
    x = torch.full((2, 3), -math.inf, requires_grad=True)
    p = MAPS[name](x)
    assert (p == 0).all()
    p.sum().backward()
    assert (x.grad == 0).all()


@every_map
def test_nan_and_infinity_are_shown(name):
    p = MAPS[name](torch.tensor([[0.0, math.nan, 1.0], [0.0, 1.0, 2.0]]))
    assert p[0].isnan().all() or (not MAPS[name].simplex and p[0, 1].isnan())
    assert p[1].isfinite().all()
    q = MAPS[name](torch.tensor([0.0, math.inf, 1.0]))
    assert q.isnan().all() or (not MAPS[name].simplex and q[1] == 1)


@every_map
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(name, dtype):
    theta = many(rows=50, dtype=torch.float32).to(dtype)
    p = MAPS[name](theta)
    assert p.dtype == dtype
    assert torch.equal(p, MAPS[name](theta.float()).to(dtype))


@every_map
def test_shapes(name):
    assert MAPS[name](torch.randn(2, 3, 5)).shape == (2, 3, 5)
    assert MAPS[name](torch.randn(2, 0)).shape == (2, 0)
    assert MAPS[name](torch.randn(0, 4)).shape == (0, 4)
    one = MAPS[name](torch.randn(3, 1))
    assert not MAPS[name].simplex or (one == 1).all()
    strided = many(rows=6).T  # not contiguous
    torch.testing.assert_close(MAPS[name](strided), MAPS[name](strided.contiguous()))


@every_map
def test_does_not_change_its_scores(name):
    theta = many(rows=20)
    before = theta.clone()
    MAPS[name](theta)
    assert torch.equal(theta, before)


@smooth_map
def test_vmap_and_jacrev(name):
    x = many(n=5, rows=7)[:, :5]
    want = torch.stack([torch.autograd.functional.jacobian(MAPS[name], row) for row in x])
    torch.testing.assert_close(vmap(jacrev(MAPS[name]))(x), want)
    assert torch.equal(vmap(MAPS[name], in_dims=1, out_dims=1)(x), MAPS[name](x.T).T)


@every_map
def test_bad_scores_are_named(name):
    with pytest.raises(DtypeError, match=r"scores must be float.*; got torch.int64. Use scores.float\(\)"):
        MAPS[name](torch.tensor([1, 2]))
    with pytest.raises(ShapeError, match=r"scores must be \(..., n\); got \(\)"):
        MAPS[name](torch.tensor(1.0))
    with pytest.raises(TypeError, match="scores must be a tensor; got list"):
        MAPS[name]([1.0, 2.0])


@every_map
def test_large_rows_sum_to_one_and_keep_order(name):
    entry = MAPS[name]
    theta = torch.randn(2, 70_000, generator=torch.Generator().manual_seed(0))
    p = entry(theta)
    assert p.isfinite().all()
    if entry.simplex:
        torch.testing.assert_close(p.double().sum(-1), torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-5)
