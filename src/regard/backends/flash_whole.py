"""Softmax of dot products by `scaled_dot_product_attention`: while compiling, and on other devices.

A bias, or one by distance, is written out for it.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend

from regard.backends.call import Call
from regard.core.shapes import widened
from regard.masks import Causal
from regard.scores.score import Products

MOST = 1 << 13  # rows of a bias that may be written out for torch


def by_torch(call: Call) -> Tensor | None:
    """Context (..., m, d_v); None with a cap, dropout or a sink, or where mask or terms need much memory."""
    causal = type(call.mask) is Causal and bool(call.m == call.n)  # torch.jit has tensors for sizes
    if call.dropout or call.sink is not None or call.value_term is not None:
        return None
    if call.mask is not None and not causal and _written(call) > call.n << 10:
        return None
    products = call.products()
    if products is None or products.cap is not None:
        return None
    causal = causal and products.bare
    visible = None if causal else call.visible(0, call.m)
    if visible is not None and call.sees is not None:
        visible = visible | ~call.sees.unsqueeze(-1)  # torch wants every query to see something: undone below
    if not products.bare:
        added = _added(products, call)
        if added is None:
            return None
        visible = added if visible is None else torch.where(visible, added, float("-inf"))
    tensors = products.query, products.keys, widened(call.values)
    query, keys, values = (t.expand(*call.batch, *t.shape[-2:]) for t in tensors)
    if len(call.batch) == 1:  # torch has kernels for four axes
        query, keys, values = (t.unsqueeze(0) for t in (query, keys, values))
    if torch.compiler.is_compiling() or not call.tracked or not _fused(query, keys, values, visible, causal):
        context = _sdpa(query, keys, values, visible, causal)
    else:
        run: Callable[..., Tensor] = _Whole.apply
        context = run(query, keys, values, visible, causal)
    context = context.squeeze(0) if len(call.batch) == 1 else context
    return context if call.sees is None else torch.where(call.sees.unsqueeze(-1), context, 0)


def _added(products: Products, call: Call) -> Tensor | None:
    """What is added to the products, (..., m, n) or a shape that broadcasts to it; None if that is much."""
    added, distance = products.bias, products.distance
    if distance is not None:
        if _more(prod(distance.table.shape[:-2]) * call.m, MOST):
            return None
        written = distance.written(call.m, call.n)
        added = written if added is None else added + written
    assert added is not None
    return added.to(products.query.dtype).expand(*added.shape[:-1], call.n)


def _more(size: int, most: int) -> bool:
    """Whether a size is larger; of one that is only known when what is compiled runs, no."""
    if torch.compiler.is_compiling():
        from torch.fx.experimental.symbolic_shapes import statically_known_true

        return statically_known_true(size > most)
    return bool(size > most)


def _written(call: Call) -> int:
    """Numbers in the mask when it is written out for torch."""
    assert call.mask is not None
    one = call.mask.rows(0, min(1, call.m), call.m, call.n, len(call.batch), call.query.device)
    ends = call.mask.interval(call.m, call.n, len(call.batch), call.query.device)
    by_row = ends is None or ends[0].shape[-1] > 1 or ends[1].shape[-1] > 1
    return one.numel() * (call.m if by_row else 1)


def _sdpa(query: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None, causal: bool) -> Tensor:
    return F.scaled_dot_product_attention(query, keys, values, visible, is_causal=causal, scale=1.0)


def _fused(query: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None, causal: bool) -> bool:
    """Whether torch takes a fused kernel for these, not its own plain steps, which have all derivatives."""
    choice: int = torch._fused_sdp_choice(query, keys, values, visible, 0.0, causal, scale=1.0)
    return choice != int(SDPBackend.MATH.value)


class _Whole(torch.autograd.Function):
    """Devices have several kernels, each with its own backward: this runs them again."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None, causal: bool
    ) -> Tensor:
        ctx.causal = causal
        ctx.save_for_backward(query, keys, values, visible)
        return _sdpa(query, keys, values, visible, causal)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, keys, values, visible = ctx.saved_tensors
        needed, again = ctx.needs_input_grad[:3], torch.is_grad_enabled()
        with torch.enable_grad():  # inputs apart, even where they are one tensor
            inputs = [t.view_as(t) if again else t.detach().requires_grad_() for t in (query, keys, values)]
            run: Callable[..., Tensor] = _steps if again else _sdpa
            context = run(*inputs, visible, ctx.causal)
        wanted = [t for t, need in zip(inputs, needed, strict=True) if need]
        grads = iter(torch.autograd.grad(context, wanted, gradient, create_graph=again))
        return *(next(grads) if need else None for need in needed), None, None


def _steps(query: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None, causal: bool) -> Tensor:
    """The plain steps, every query seeing something."""
    theta = query @ keys.mT
    if causal:
        visible = torch.ones(theta.shape[-2:], dtype=torch.bool, device=theta.device).tril()
    if visible is not None and visible.dtype != torch.bool:
        theta = theta + visible
    elif visible is not None:
        theta = theta.masked_fill(~visible, float("-inf"))
    return theta.softmax(-1) @ values
