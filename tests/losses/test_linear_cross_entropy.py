"""Against the logits written out: values, first and second derivatives."""

from importlib import import_module

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional as F

from regard.core.errors import ShapeError
from regard.losses import linear_cross_entropy

module = import_module("regard.losses.linear_cross_entropy")


def made(t: int, d: int, v: int, seed: int, with_bias: bool, dtype: torch.dtype = torch.float64) -> tuple:
    source = torch.Generator().manual_seed(seed)
    h, w, b = (torch.randn(shape, generator=source, dtype=dtype) for shape in ((t, d), (v, d), (v,)))
    y = torch.randint(0, v, (t,), generator=source)
    return h.requires_grad_(), w.requires_grad_(), b.requires_grad_() if with_bias else None, y


def by_definition(h: Tensor, w: Tensor, b: Tensor | None, y: Tensor, smoothing: float) -> Tensor:
    logits = h @ w.t() + (0 if b is None else b)
    wanted = (1 - smoothing) * F.one_hot(y, len(w)) + smoothing / len(w)
    return -(wanted * (logits - logits.logsumexp(-1, keepdim=True))).sum()


@given(st.integers(0, 9), st.integers(1, 5), st.integers(1, 30), st.integers(0, 99), st.booleans())
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("at_once", [1, 40, 1 << 20])
def test_equals_its_definition(
    at_once: int, smoothing: float, t: int, d: int, v: int, seed: int, with_bias: bool
) -> None:
    h, w, b, y = made(t, d, v, seed, with_bias)
    inputs = [x for x in (h, w, b) if x is not None]
    wanted = by_definition(h, w, b, y, smoothing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "AT_ONCE", at_once)
        loss = linear_cross_entropy(h, w, b, y, smoothing=smoothing)
        with torch.no_grad():
            unlearned = linear_cross_entropy(h, w, b, y, smoothing=smoothing)
    torch.testing.assert_close(loss, wanted)
    torch.testing.assert_close(unlearned, wanted)
    for ours, theirs in zip(
        torch.autograd.grad(3 * loss, inputs), torch.autograd.grad(3 * wanted, inputs), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("with_bias", [True, False])
def test_derivatives(with_bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 12)
    h, w, b, y = made(5, 3, 6, 0, with_bias)
    inputs = (h, w, b) if with_bias else (h, w)

    def loss(h: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        return linear_cross_entropy(h, w, b, y, smoothing=0.2)

    assert gradcheck(loss, inputs)
    assert gradgradcheck(loss, inputs)


def test_only_what_is_learned_gets_a_gradient() -> None:
    h, w, b, y = made(4, 3, 5, 1, True)
    linear_cross_entropy(h.detach(), w, b.detach(), y).backward()
    assert h.grad is None and b.grad is None and w.grad is not None


def test_large_logits_and_hidden_words_stay_finite() -> None:
    h, w, b, y = made(4, 3, 5, 2, True, torch.float32)
    with torch.no_grad():
        w.mul_(1e4)
        b[(y[0] + 1) % 5] = -torch.inf
    y = y[:1].expand(4)
    loss = linear_cross_entropy(h, w, b, y)
    torch.testing.assert_close(loss, F.cross_entropy(F.linear(h, w, b), y, reduction="sum"))
    loss.backward()
    assert all(x.grad.isfinite().all() for x in (h, w, b))


def test_half_precision_and_autocast() -> None:
    h, w, b, y = made(6, 4, 9, 3, True, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = linear_cross_entropy(h, w, b, y, smoothing=0.1)
    torch.testing.assert_close(
        mixed.float(), linear_cross_entropy(h, w, b, y, smoothing=0.1), rtol=0.03, atol=0.1
    )


def test_bad_shapes_are_named() -> None:
    h, w, b, y = made(6, 4, 9, 3, True)
    with pytest.raises(ShapeError, match=r"wanted \(t,\)"):
        linear_cross_entropy(h, w, b, y[:-1])
