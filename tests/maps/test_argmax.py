"""Argmax: the corner of the simplex, its tie rule, and a gradient that is 0."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch.func import jacrev, vmap

import reference
from regard.maps.argmax import argmax

INF, NAN = float("inf"), float("nan")
scores_of_a_row = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=6)


@given(theta=scores_of_a_row)
def test_agrees_with_its_definition(theta):
    assert argmax(torch.tensor(theta)).tolist() == reference.argmax(theta)


def test_is_a_solution_of_the_linear_program():
    """Claim C13: maxⱼ θⱼ = max pᵀθ over the simplex."""
    torch.manual_seed(0)
    for theta in torch.randn(20, 7, dtype=torch.float64):
        program = linprog(-theta.numpy(), A_eq=[[1] * 7], b_eq=[1], bounds=(0, None))
        assert (argmax(theta) @ theta).item() == theta.max().item()
        assert -program.fun == pytest.approx(theta.max().item(), abs=1e-12)


def test_the_first_of_equals_wins():
    assert argmax(torch.tensor([1.0, 3.0, 3.0, 3.0])).tolist() == [0, 1, 0, 0]
    assert argmax(torch.zeros(2, 1000))[:, 0].tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_rows_without_an_answer(dtype):
    scores = torch.tensor([[-INF, -INF], [NAN, 1], [1, INF], [-INF, -9]], dtype=dtype)
    p = argmax(scores)
    assert p.dtype == dtype
    assert p[0].tolist() == [0, 0]
    assert p[1:3].isnan().all()
    assert p[3].tolist() == [0, 1]


def test_the_gradient_is_zero():
    scores = torch.tensor([[1.0, 3.0, -INF, 0.0], [-INF] * 4], requires_grad=True)
    argmax(scores).backward(torch.randn(2, 4))
    assert scores.grad.equal(torch.zeros(2, 4))
    assert vmap(jacrev(argmax))(scores.detach()).equal(torch.zeros(2, 4, 4))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5)])
def test_nothing_gives_nothing(shape):
    assert argmax(torch.zeros(shape)).shape == shape
