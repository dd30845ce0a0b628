"""The doubly stochastic penalty of Show, Attend and Tell."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import DtypeError, ShapeError
from regard.losses import doubly_stochastic_penalty
from regard.masks import Lengths


def drawn(seed, *shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).softmax(-1)


def by_hand(weights, steps, keys, strength=1.0):
    """λ Σ over real keys of (1 − Σ over real steps of the weight)²."""
    total = 0.0
    for j, real in enumerate(keys):
        if real:
            total += (1 - sum(weights[t][j] for t in range(len(weights)) if steps[t])) ** 2
    return strength * total


@given(st.integers(0, 10**6), st.floats(0, 10))
def test_is_its_definition(seed, strength):
    weights = drawn(seed, 3, 4, 5)
    found = doubly_stochastic_penalty(weights, strength, reduction="none")
    want = [by_hand(one.tolist(), [True] * 4, [True] * 5, strength) for one in weights]
    assert found.tolist() == pytest.approx(want)
    assert doubly_stochastic_penalty(weights, strength).item() == pytest.approx(sum(want) / 3)
    assert doubly_stochastic_penalty(weights, strength, reduction="sum").item() == pytest.approx(sum(want))


@given(st.integers(0, 10**6))
def test_steps_and_keys_that_are_not_real_do_not_count(seed):
    weights = drawn(seed, 2, 4, 5)
    steps = torch.tensor([[True] * 4, [True, True, False, False]])
    keys = torch.tensor([[True] * 3 + [False] * 2, [True] * 5])
    mask = steps[..., None] & keys[..., None, :]
    want = [by_hand(w.tolist(), s.tolist(), k.tolist()) for w, s, k in zip(weights, steps, keys, strict=True)]
    found = doubly_stochastic_penalty(weights, mask=mask, reduction="none")
    assert found.tolist() == pytest.approx(want)
    poisoned = weights.masked_fill(~mask, math.nan).requires_grad_()
    again = doubly_stochastic_penalty(poisoned, mask=mask, reduction="none")
    assert again.tolist() == pytest.approx(want)
    again.sum().backward()
    assert poisoned.grad.isfinite().all() and (poisoned.grad[~mask] == 0).all()


def test_lengths_are_a_mask_too():
    weights = drawn(0, 2, 3, 4)
    lengths, keys = torch.tensor([4, 2]), torch.arange(4)
    mask = (keys < lengths[:, None])[:, None]
    assert torch.equal(
        doubly_stochastic_penalty(weights, mask=Lengths(lengths)),
        doubly_stochastic_penalty(weights, mask=mask),
    )


def test_is_zero_only_where_every_key_was_looked_at_once():
    assert doubly_stochastic_penalty(torch.eye(4)[[2, 0, 3, 1]]).item() == 0
    assert doubly_stochastic_penalty(torch.full((4, 4), 0.25)).item() == 0
    stuck = torch.eye(4)[[0, 0, 0, 0]]  # one key four times: (1 − 4)² + 3
    assert doubly_stochastic_penalty(stuck).item() == 12


def test_descent_spreads_the_weights():
    scores = torch.zeros(6, 4, dtype=torch.float64)
    scores[:, 0] = 3.0
    scores.requires_grad_()
    before = doubly_stochastic_penalty(scores.softmax(-1)).item()
    for _ in range(300):
        (grad,) = torch.autograd.grad(doubly_stochastic_penalty(scores.softmax(-1)), scores)
        scores = (scores - 0.5 * grad).detach().requires_grad_()
    spread = scores.softmax(-1).sum(0)
    assert doubly_stochastic_penalty(scores.softmax(-1)).item() < 0.1 * before
    assert spread.tolist() == pytest.approx([1.5] * 4, abs=0.05)  # six steps over four keys


def test_derivatives_precision_and_empty_batches():
    weights = drawn(1, 2, 3, 4).requires_grad_()
    assert torch.autograd.gradcheck(doubly_stochastic_penalty, weights)
    assert torch.autograd.gradgradcheck(doubly_stochastic_penalty, weights)
    half = weights.detach().bfloat16()
    assert doubly_stochastic_penalty(half).dtype == torch.bfloat16
    assert torch.equal(doubly_stochastic_penalty(half), doubly_stochastic_penalty(half.float()).bfloat16())
    assert doubly_stochastic_penalty(torch.zeros(0, 3, 4)).item() == 0


def test_bad_input_is_named():
    with pytest.raises(ShapeError, match=r"weights must be \(..., T, n\); got \(3,\)"):
        doubly_stochastic_penalty(torch.ones(3))
    with pytest.raises(DtypeError, match="weights must be float"):
        doubly_stochastic_penalty(torch.ones(2, 3, dtype=torch.int64))
    with pytest.raises(DtypeError, match="mask must be boolean"):
        doubly_stochastic_penalty(torch.ones(2, 3), mask=torch.ones(2, 3))
    with pytest.raises(ShapeError, match=r"mask must broadcast to \(..., m, n\) = \(2, 3\); got \(4, 3\)"):
        doubly_stochastic_penalty(torch.ones(2, 3), mask=torch.ones(4, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="strength must be at least 0; got -1"):
        doubly_stochastic_penalty(torch.ones(2, 3), -1)
    with pytest.raises(ValueError, match='reduction must be "mean", "sum" or "none"'):
        doubly_stochastic_penalty(torch.ones(2, 3), reduction="max")
