"""Argmax: the corner of the simplex, its tie rule, and a gradient that is 0."""

import pytest
import torch
from hypothesis import strategies as st
from scipy.optimize import linprog

from regard.maps.argmax import argmax

INF, NAN = float("inf"), float("nan")
scores_of_a_row = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=6)


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
