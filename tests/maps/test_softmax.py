"""Softmax: its temperature, and the rows that torch.softmax does not answer."""

import pytest
import torch
from hypothesis import strategies as st

from regard.core.errors import DtypeError, ShapeError
from regard.maps.argmax import argmax
from regard.maps.softmax import softmax

INF = float("inf")
scores_of_a_row = st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=8)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_without_temperature_it_is_torchs(dtype):
    scores = torch.randn(3, 4, 17).to(dtype)
    assert softmax(scores).equal(torch.softmax(scores, -1))


def test_temperature_goes_from_uniform_to_argmax():
    scores = torch.tensor([1.0, 3.0, 2.0, -INF])
    assert softmax(scores, 1e6).tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=1e-5)
    assert softmax(scores, 1e-3).equal(argmax(scores))


def test_bad_input_is_refused_by_name():
    with pytest.raises(
        ValueError, match=r"temperature must be above 0; got -1.0. For its limit at 0 use argmax."
    ):
        softmax(torch.zeros(3), -1.0)
    with pytest.raises(DtypeError, match=r"scores must be .* got torch.int64"):
        softmax(torch.arange(3))
    with pytest.raises(ShapeError, match=r"scores must be \(..., n\); got \(\)"):
        softmax(torch.tensor(1.0))
    with pytest.raises(TypeError, match=r"scores must be a tensor; got list"):
        softmax([1.0, 2.0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [0.25, torch.tensor(0.25)])
def test_a_low_temperature_of_large_scores(dtype, temperature):
    most = torch.finfo(dtype).max
    if isinstance(temperature, torch.Tensor):
        temperature = temperature.to(dtype)
    x = torch.tensor([most, most, 0, -most, -torch.inf], dtype=dtype, requires_grad=True)
    weights = softmax(x, temperature)
    assert weights.tolist() == [0.5, 0.5, 0, 0, 0]
    (gradient,) = torch.autograd.grad(weights[0], x)
    assert gradient.tolist() == [1, -1, 0, 0, 0]
    assert softmax(x[4:], temperature).tolist() == [0]
