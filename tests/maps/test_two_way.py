"""Column and two-way softmax, coattention, attention over attention."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference
from regard.core.errors import DtypeError, ShapeError
from regard.maps import attention_over_attention, coattention, column_softmax, softmax, two_way_softmax

seeds = st.integers(0, 10**6)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def drawn(seed, *shape):
    """Scores, and a mask that hides some cells, a row and a column."""
    g = torch.Generator().manual_seed(seed)
    mask = torch.rand(shape, generator=g) < 0.7
    mask[..., 0, :] = mask[..., :, 1] = False
    return torch.randn(shape, generator=g, dtype=torch.float64), mask


def test_every_key_divides_itself_among_the_queries():
    theta = normal(2, 3, 5)
    close(column_softmax(theta).sum(-2), torch.ones(2, 5, dtype=torch.float64))
    close(column_softmax(theta), softmax(theta.mT).mT)
    assert (column_softmax(theta) - softmax(theta)).abs().max() > 0.1  # control


def test_two_way_is_large_only_where_both_choose():
    theta = torch.tensor([[9.0, 0.0], [8.0, 0.0]])  # both queries choose key 1, which chooses query 1
    p = two_way_softmax(theta)
    assert softmax(theta)[1, 0] > 0.99
    assert p[0, 0] > 0.7 > 0.3 > p[1, 0]
    close(two_way_softmax(normal(4, 6)), two_way_softmax(normal(4, 6).mT).mT)  # the sides are alike


@given(seeds)
def test_coattention_is_both_readings_of_one_matrix(seed):
    theta, mask = drawn(seed, 2, 4, 5)
    by_row, by_column = coattention(theta, mask)
    close(by_row.sum(-1), mask.any(-1).double())
    close(by_column.sum(-2), mask.any(-2).double())
    assert (by_row[~mask] == 0).all() and (by_column[~mask] == 0).all()
    filled = theta.masked_fill(~mask, -math.inf)
    close(by_row, softmax(filled))
    close(by_column, column_softmax(filled))


def test_22_the_question_attends_by_column():
    """C^Q = D A^Q needs columns that sum to 1. A lecture normalises L = DᵀQ row-wise for it, and stacks the
    question and its summaries side by side: they go one on top of the other, 2l features."""
    width, m, n = 3, 5, 4
    D, Q = normal(width, m), normal(width, n, seed=1)  # words are columns, as in the paper
    by_row, by_column = coattention(D.T @ Q)  # (m, n)
    A_Q, A_D = by_column, by_row.T
    close(A_Q.sum(0), torch.ones(n, dtype=torch.float64))
    close(A_D.sum(0), torch.ones(m, dtype=torch.float64))
    C_Q = D @ A_Q
    C_D = torch.cat([Q, C_Q]) @ A_D
    assert C_Q.shape == (width, n)
    assert C_D.shape == (2 * width, m)
    ones = torch.ones_like(D)
    close(ones @ A_Q, torch.ones(width, n, dtype=torch.float64))  # summaries are means
    printed = by_row  # control: "row-wise", as printed
    assert (ones @ printed - 1).abs().max() > 0.1
    words = D.T, Q.T  # the same with words as rows, as the docstring has it
    close(by_column.mT @ words[0], C_Q.T)
    close(by_row @ torch.cat([words[1], by_column.mT @ words[0]], -1), C_D.T)


@given(seeds)
def test_attention_over_attention_is_its_definition(seed):
    """Word by word as Cui et al. have it: documents are keys here."""
    theta, mask = drawn(seed, 4, 6)
    s = attention_over_attention(theta, mask)
    words = [i for i in range(4) if mask[i].any()]
    documents = [j for j in range(6) if mask[:, j].any()]
    filled = theta.masked_fill(~mask, -math.inf)
    beta = [0.0] * 4
    for j in documents:
        seen = [i for i in words if mask[i, j]]
        for i, b in zip(seen, reference.softmax(filled[seen, j].tolist()), strict=True):
            beta[i] += b / len(documents)
    want = torch.zeros(6, dtype=torch.float64)
    for i in words:
        seen = [j for j in range(6) if mask[i, j]]
        want[seen] += beta[i] * torch.tensor(reference.softmax(theta[i, seen].tolist()), dtype=torch.float64)
    close(s, want)
    assert s.sum().item() == pytest.approx(1 if words else 0)


def test_attention_over_attention_of_a_batch_and_without_a_mask():
    theta = normal(2, 3, 4, 5)
    s = attention_over_attention(theta)
    assert s.shape == (2, 3, 5)
    close(s.sum(-1), torch.ones(2, 3, dtype=torch.float64))
    close(s[1, 2], attention_over_attention(theta[1, 2]))
    nothing = torch.zeros(4, 5, dtype=torch.bool)
    assert (attention_over_attention(theta, nothing) == 0).all()


@pytest.mark.parametrize("helper", [lambda *a: coattention(*a)[1], attention_over_attention])
def test_helpers_differentiate_and_hide(helper):
    theta, mask = drawn(0, 2, 4, 5)
    x = theta.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: helper(x, mask), x)
    assert torch.autograd.gradgradcheck(lambda x: helper(x, mask), x)
    poisoned = theta.masked_fill(~mask, math.nan).requires_grad_()
    out = helper(poisoned, mask)
    close(out, helper(theta, mask))
    (grad,) = torch.autograd.grad(out.square().sum(), poisoned)
    assert grad.isfinite().all() and (grad[~mask] == 0).all()
    assert helper(theta.bfloat16(), mask).dtype == torch.bfloat16


@pytest.mark.parametrize("helper", [coattention, attention_over_attention])
def test_bad_input_is_named(helper):
    with pytest.raises(DtypeError, match="mask must be boolean"):
        helper(normal(2, 3), torch.ones(2, 3))
    with pytest.raises(ShapeError, match=r"mask must broadcast to scores \(2, 3\); got \(4, 3\)"):
        helper(normal(2, 3), torch.ones(4, 3, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"scores must be \(..., m, n\); got \(3,\)"):
        helper(normal(3))
