"""Sigmoid: each key on its own."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference
from regard.maps.sigmoid import sigmoid

INF, NAN = float("inf"), float("nan")


@given(theta=st.lists(st.floats(-40, 40, width=32), min_size=1, max_size=6))
def test_agrees_with_its_definition(theta):
    assert sigmoid(torch.tensor(theta, dtype=torch.float64)).tolist() == pytest.approx(
        reference.sigmoid(theta), rel=1e-12, abs=0
    )


def test_a_row_can_sum_to_anything():
    """INVENTORY M10: sigmoid weights are not in the simplex."""
    assert sigmoid(torch.full((5,), 20.0)).sum() == pytest.approx(5)
    assert sigmoid(torch.full((5,), -20.0)).sum() == pytest.approx(0, abs=1e-7)
