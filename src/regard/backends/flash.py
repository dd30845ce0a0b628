"""The flash backend: softmax of a dot product through torch's own `scaled_dot_product_attention`.

Its fused kernels keep no m × n numbers, and have no second derivative. So the gradient is taken inside a
Function: asked for with `create_graph`, it is that of the plain steps. What backward needs is saved by
`save_for_backward`, not in a graph of its own: checkpointing would run everything again for each such graph.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend
from torch.utils.flop_counter import (
    flop_registry,
    register_flop_formula,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from regard.backends.call import Call
from regard.core.shapes import widened
from regard.masks import Causal
from regard.scores.score import Factored

ATEN = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
ATEN_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
if ATEN not in flop_registry:  # torch counts 0 for its kernels on the CPU
    register_flop_formula(ATEN)(lambda *shapes, **_: sdpa_flop_count(*shapes[:3]))
    register_flop_formula(ATEN_BACKWARD)(lambda *shapes, **_: sdpa_backward_flop_count(*shapes[:4]))


def takes(call: Call) -> bool:
    """Whether the call is a softmax of dot products, under a mask that torch takes without m × n memory."""
    if (
        call.name != "softmax"
        or not isinstance(call.score, Factored)
        or call.dropout
        or call.sink is not None
    ):
        return False
    return call.mask is None or _is_causal(call) or _written(call) <= call.n << 10


def flash(call: Call) -> Tensor:
    """Context (..., m, d_v)."""
    query, keys = call.factors()
    visible = None if _is_causal(call) else call.visible(0, call.m)
    if visible is not None and call.sees is not None:
        visible = visible | ~call.sees.unsqueeze(-1)  # torch wants every query to see something: undone below
    causal = call.mask is not None and visible is None
    batch = call.batch
    query, keys, values = (t.expand(*batch, *t.shape[-2:]) for t in (query, keys, widened(call.values)))
    if torch.compiler.is_compiling() or not call.tracked or not _fused(query, keys, values, visible, causal):
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


def _fused(query: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None, causal: bool) -> bool:
    """Whether torch takes a fused kernel for these, not its own plain steps, which have all derivatives."""
    choice: int = torch._fused_sdp_choice(query, keys, values, visible, 0.0, causal, scale=1.0)
    return choice != int(SDPBackend.MATH.value)


def _added(visible: Tensor | None, like: Tensor) -> Tensor | None:
    """The mask as the CPU's kernel wants it: 0 or −inf."""
    if visible is None:
        return None
    return torch.zeros_like(visible, dtype=like.dtype).masked_fill(~visible, float("-inf"))


class _Flash(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None, causal: bool
    ) -> Tensor:
        ctx.causal, kept = causal, ()
        context: Tensor
        if query.is_cpu:
            mask = _added(visible, query)
            context, *kept = ATEN(query, keys, values, 0.0, causal, attn_mask=mask, scale=1.0)
            kept = context, *kept
        else:  # other devices have several kernels, each with its own: backward runs it again
            context = _sdpa(query, keys, values, visible, causal)
        ctx.save_for_backward(query, keys, values, visible, *kept)
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, keys, values, visible, *kept = ctx.saved_tensors
        needed, again = ctx.needs_input_grad[:3], torch.is_grad_enabled()
        if kept and not again:
            settings = {"attn_mask": _added(visible, query), "scale": 1.0}
            found = ATEN_BACKWARD(gradient, query, keys, values, *kept, 0.0, ctx.causal, **settings)
            return *found, None, None
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
    if visible is not None:
        theta = theta.masked_fill(~visible, float("-inf"))
    return theta.softmax(-1) @ values
