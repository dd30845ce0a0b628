"""Softmax: its temperature, and the rows that torch.softmax does not answer."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jacrev, vmap

import reference
from regard.core.errors import DtypeError, ShapeError
from regard.maps.argmax import argmax
from regard.maps.softmax import softmax

INF = float("inf")
scores_of_a_row = st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=8)


@given(theta=scores_of_a_row, temperature=st.floats(0.1, 10))
def test_agrees_with_its_definition(theta, temperature):
    p = softmax(torch.tensor(theta, dtype=torch.float64), temperature)
    assert p.tolist() == pytest.approx(reference.softmax(theta, temperature), abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_without_temperature_it_is_torchs(dtype):
    scores = torch.randn(3, 4, 17).to(dtype)
    assert softmax(scores).equal(torch.softmax(scores, -1))


def test_temperature_goes_from_uniform_to_argmax():
    scores = torch.tensor([1.0, 3.0, 2.0, -INF])
    assert softmax(scores, 1e6).tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=1e-5)
    assert softmax(scores, 1e-3).equal(argmax(scores))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_temperature_in_half_precision_is_applied_in_float32(dtype):
    scores = torch.randn(4, 9).to(dtype) * 4
    assert softmax(scores, 0.3).equal(softmax(scores.float(), 0.3).to(dtype))


def test_a_learned_temperature_has_its_gradient_and_hidden_keys_no_part_in_it():
    torch.manual_seed(0)
    scores = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    temperature = torch.tensor([[[0.7]], [[1.6]]], dtype=torch.float64, requires_grad=True)
    hidden = torch.zeros(2, 3, 5, dtype=torch.bool)
    hidden[0, 0, 2] = hidden[1, 2] = True

    def masked(scores, temperature):
        return softmax(scores.masked_fill(hidden, -INF), temperature)

    assert gradcheck(masked, (scores, temperature), check_forward_ad=True)
    assert gradgradcheck(masked, (scores, temperature))


def test_a_row_that_sees_nothing_has_weight_and_gradient_0_and_the_others_keep_theirs():
    torch.manual_seed(0)
    scores = torch.randn(3, 4)
    scores[1] = -INF
    scores[2, 1:] = -INF
    scores.requires_grad_()
    p = softmax(scores)
    p.backward(torch.randn(3, 4))
    assert p[1].equal(torch.zeros(4))
    assert p[2].equal(torch.tensor([1.0, 0, 0, 0]))
    assert p[0].equal(torch.softmax(scores[0], -1))
    assert scores.grad[1:].equal(torch.zeros(2, 4))


def test_derivatives_beside_a_row_that_sees_nothing():
    scores = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    hidden = torch.tensor([[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1]]).bool()
    assert gradcheck(lambda x: softmax(x.masked_fill(hidden, -INF)), scores)
    assert gradgradcheck(lambda x: softmax(x.masked_fill(hidden, -INF)), scores)


@pytest.mark.parametrize("bad", [float("nan"), INF])
def test_a_row_that_cannot_be_mapped_is_nan_even_beside_an_empty_one(bad):
    p = softmax(torch.tensor([[0.0, bad, -INF], [-INF, -INF, -INF], [1.0, 2.0, 3.0]]))
    assert p[0].isnan().all()
    assert p[1].equal(torch.zeros(3))
    assert p[2].sum() == pytest.approx(1)


def test_transforms_and_the_compiler_know_empty_rows_too():
    torch.manual_seed(0)
    scores = torch.randn(4, 5, dtype=torch.float64)
    scores[1] = -INF
    scores[2, :2] = -INF
    torch.testing.assert_close(vmap(softmax)(scores), softmax(scores))
    jacobian = vmap(jacrev(softmax))(scores)
    p = softmax(scores)
    torch.testing.assert_close(jacobian, p.diag_embed() - p.unsqueeze(-1) * p.unsqueeze(-2))
    compiled = torch.compile(softmax, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(scores), p)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5)])
def test_nothing_gives_nothing(shape):
    scores = torch.zeros(shape, requires_grad=True)
    softmax(scores, 0.5).sum().backward()
    assert scores.grad.shape == shape


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
