"""Sparsemax and 1.5-entmax against bisection in float64: rows short and long, tied, huge, empty, broken."""

import importlib

import numpy as np
import pytest
import torch

INF = float("inf")
NAN = float("nan")
MODULES = {name: importlib.import_module(f"regard.maps.{name}") for name in ("sparsemax", "entmax15")}
DIGITS = {torch.float32: 1e-6, torch.float64: 1e-12}
LENGTHS = [1, 2, 3, 7, 8, 31, 33, 64, 100, 512, 1000, 4095, 4096, 4097, 8193, 65536]

both = pytest.mark.parametrize("name", MODULES)
each_dtype = pytest.mark.parametrize("dtype", DIGITS)


def function(name):
    return getattr(MODULES[name], name)


def reference(name, scores):
    """Halve the interval that holds τ until nothing is left of it, in float64, for scores (rows, n)."""
    theta = scores.double().numpy()
    x = theta - theta.max(-1, keepdims=True)
    x, power = (x, 1) if name == "sparsemax" else (x / 2, 2)
    low, high = np.full((len(x), 1), -1.0), np.zeros((len(x), 1))
    for _ in range(80):
        tau = (low + high) / 2
        above = (np.maximum(x - tau, 0) ** power).sum(-1, keepdims=True) >= 1
        low, high = np.where(above, tau, low), np.where(above, high, tau)
    return torch.from_numpy(np.maximum(x - low, 0) ** power)


def assert_agrees(name, scores):
    p = function(name)(scores)
    assert p.dtype == scores.dtype
    torch.testing.assert_close(p.double(), reference(name, scores), rtol=0, atol=DIGITS[scores.dtype])
    torch.testing.assert_close(p.double().sum(-1), torch.ones(len(p), dtype=torch.float64), rtol=0, atol=2e-6)


@both
@each_dtype
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("scale", [1.0, 5.0, 0.1, 1e-3])
def test_agrees_with_bisection(name, dtype, n, scale):
    torch.manual_seed(n)
    assert_agrees(name, torch.randn(4, n, dtype=dtype) * scale)


@both
@each_dtype
@pytest.mark.parametrize("n", [5, 64, 700, 9000])
def test_agrees_on_odd_shapes_of_scores(name, dtype, n):
    torch.manual_seed(n)
    u = torch.rand(8, n, dtype=dtype)
    rows = [
        -u.log(),  # a long tail above
        u.log(),  # a long tail below
        -(10.0 ** (-8 * u)),  # every order of magnitude below the maximum
        (4 * u).floor() / 4,  # ties
        torch.linspace(0, -3, n, dtype=dtype).expand(8, n),
        torch.where(u < 0.5, -u / 20, -0.2 - 0.8 * u),  # two crowds
        u * 1e30,
        -1 + u * 1e-6,
    ]
    for row in rows:
        assert_agrees(name, row)


@both
@each_dtype
def test_equal_scores_get_equal_weights(name, dtype):
    scores = torch.randint(-3, 4, (50, 333), dtype=dtype) / 8
    p = function(name)(scores)
    for row, weights in zip(scores, p, strict=True):
        for value in row.unique():
            assert weights[row == value].unique().numel() == 1


@both
@each_dtype
@pytest.mark.parametrize("value", [0.0, -7.0, 1e30, -1e30, 3e38, -3e38, 1e-42])
@pytest.mark.parametrize("n", [1, 3, 64, 5000])
def test_all_equal_is_uniform(name, dtype, value, n):
    p = function(name)(torch.full((2, n), value, dtype=dtype))
    torch.testing.assert_close(p, torch.full((2, n), 1 / n, dtype=dtype), rtol=1e-6, atol=0)


@both
def test_very_long_row_of_equal_scores(name):
    n = 3_000_000  # a sum of n float32 numbers is off by more than 1/n
    p = function(name)(torch.zeros(n))
    torch.testing.assert_close(p.double().sum().item(), 1.0, rtol=0, atol=1e-5)
    assert p.unique().numel() == 1


@both
@each_dtype
def test_extremes_side_by_side(name, dtype):
    scores = torch.tensor(
        [[3e38, -3e38, 3e38, 0.0, -INF, 1e30], [1e30, -1e30, 1e-42, 0.0, -INF, -3e38]], dtype=dtype
    )
    p = function(name)(scores)
    expected = torch.tensor([[0.5, 0, 0.5, 0, 0, 0], [1, 0, 0, 0, 0, 0]], dtype=dtype)
    torch.testing.assert_close(p, expected, rtol=DIGITS[dtype], atol=0)


@both
@each_dtype
def test_denormal_differences(name, dtype):
    assert_agrees(name, torch.tensor([[1e-42, 0.0, -1e-42, 3e-45]], dtype=dtype))


@both
@each_dtype
def test_the_reference_for_other_devices_agrees(name, dtype):
    torch.manual_seed(0)
    reference = importlib.import_module(f"regard.kernels.row_maps.{name}_operator").by_sorting
    close = {"rtol": 0, "atol": DIGITS[dtype], "equal_nan": True}
    for n in (1, 5, 64, 4097, 65536):
        for scale in (1.0, 5.0, 0.1, 1e-3, 1e30):
            scores = torch.randn(3, n, dtype=dtype) * scale
            scores[1, : n // 2] = -INF
            torch.testing.assert_close(reference(scores), function(name)(scores), **close)
    odd = torch.tensor([[-INF] * 4, [NAN, 0, 1, 2], [INF, 0, -INF, 1], [3e38, -3e38, 0, -INF]], dtype=dtype)
    torch.testing.assert_close(reference(odd), function(name)(odd), **close)
    apart = torch.full((1, 65536), -2.0, dtype=dtype)  # all but one at the very edge of 1.5-entmax's support
    apart[0, 0] = 0
    torch.testing.assert_close(reference(apart), function(name)(apart), **close)
