"""The flash backend: softmax of a dot product through torch's own `scaled_dot_product_attention`.

Its kernels keep no m × n numbers. The CPU one has no second derivative, so the gradient is taken inside a
Function: asked for with `create_graph`, it is that of the plain steps.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.backends.call import Call
from regard.core.shapes import widened
from regard.masks import Causal
from regard.scores.score import Factored


def takes(call: Call) -> bool:
    """Whether the call is a softmax of dot products, under a mask that torch takes without m × n memory."""
    if call.name != "softmax" or not isinstance(call.score, Factored) or call.dropout:
        return False
    return call.mask is None or _is_causal(call) or _written(call) <= call.n << 10


def flash(call: Call) -> Tensor:
    """Context (..., m, d_v)."""
    assert isinstance(call.score, Factored)  # takes(call)
    query, keys = call.score.factors(widened(call.query), widened(call.keys))
    visible = None if _is_causal(call) else call.visible(0, call.m)
    if visible is not None and call.sees is not None:
        visible = visible | ~call.sees.unsqueeze(-1)  # torch wants every query to see something: undone below
    causal = call.mask is not None and visible is None
    batch = call.batch
    query, keys, values = (t.expand(*batch, *t.shape[-2:]) for t in (query, keys, widened(call.values)))
    if torch.compiler.is_compiling() or not call.tracked:
        context = _sdpa(query, keys, values, visible, causal)
    else:
        run: Callable[..., Tensor] = _Flash.apply
        context = run(query, keys, values, visible, causal)
    return context if call.sees is None else torch.where(call.sees.unsqueeze(-1), context, 0)


def _is_causal(call: Call) -> bool:
    return isinstance(call.mask, Causal) and call.m == call.n


def _written(call: Call) -> int:
    """Numbers in the mask when it is written out for torch."""
    assert call.mask is not None
    one = call.mask.rows(0, min(1, call.m), call.m, call.n, len(call.batch), call.query.device)
    ends = call.mask.interval(call.m, call.n, len(call.batch), call.query.device)
    by_row = ends is None or ends[0].shape[-1] > 1 or ends[1].shape[-1] > 1
    return one.numel() * (call.m if by_row else 1)


def _sdpa(query: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None, causal: bool) -> Tensor:
    return F.scaled_dot_product_attention(query, keys, values, visible, is_causal=causal, scale=1.0)


class _Flash(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None, causal: bool
    ) -> Tensor:
        with torch.enable_grad():
            inputs = [t.detach().requires_grad_(t.requires_grad) for t in (query, keys, values)]
            context = _sdpa(inputs[0], inputs[1], inputs[2], visible, causal)
        ctx.graph, ctx.visible, ctx.causal = (context, inputs), visible, causal
        ctx.save_for_backward(query, keys, values)
        return context.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        needed = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():
            inputs = [t.view_as(t) for t in ctx.saved_tensors]  # apart, even where they are one tensor
            context = _steps(inputs[0], inputs[1], inputs[2], ctx.visible, ctx.causal)
            again = True
        else:
            context, inputs = ctx.graph
            again = False
        wanted = [t for t, need in zip(inputs, needed, strict=True) if need]
        found = iter(torch.autograd.grad(context, wanted, gradient, retain_graph=True, create_graph=again))
        return *(next(found) if need else None for need in needed), None, None


def _steps(query: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None, causal: bool) -> Tensor:
    """The plain steps, every query seeing something."""
    theta = query @ keys.mT
    if causal:
        visible = torch.ones(theta.shape[-2:], dtype=torch.bool, device=theta.device).tril()
    if visible is not None:
        theta = theta.masked_fill(~visible, float("-inf"))
    return theta.softmax(-1) @ values
