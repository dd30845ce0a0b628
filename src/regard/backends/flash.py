"""The flash backend: softmax of dot products, with any mask and the terms of `Products`, by torch's kernels.

Its fused kernels keep no m × n numbers, and have no second derivative. So the gradient is taken inside a
Function: asked for with `create_graph`, it is that of the plain steps. What backward needs is saved by
`save_for_backward`, not in a graph of its own: checkpointing would run everything again for each such graph.

On the CPU a call is cut into tiles (`flash_tiles`), and what a mask hides is skipped. Heads that share keys
(axes of size 1) share them here too. Under torch.compile and torch.jit.trace, and on other devices, calls
without terms go to `scaled_dot_product_attention` as they are (`flash_whole`).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.backends.call import Call
from regard.backends.flash_bias import Terms
from regard.backends.flash_second import by_plain_steps
from regard.backends.flash_steps import Inputs, Softmax, padded
from regard.backends.flash_tiles import Layout, tiles_of
from regard.backends.flash_values import band_of, in_rows
from regard.backends.flash_whole import by_torch
from regard.core.shapes import widened
from regard.kernels.common.operator import is_plain
from regard.masks import Causal
from regard.positions.relative_values import RelativeValues
from regard.scores.scaled_dot import ScaledDot
from regard.scores.score import Products, Score

WIDE = (torch.float32, torch.float64)
SHARED = 32  # queries that share keys, above which a mask makes one tile for each too slow


def flash(call: Call) -> Tensor | None:
    """Context (..., m, d_v); None if this is no softmax, or its scores are no dot products and terms."""
    if call.name != "softmax" or not isinstance(call.score, Score):
        return None
    if call.query.device.type != "cpu" or torch.compiler.is_compiling() or torch._C._get_tracing_state():
        return by_torch(call)
    if bare(call):
        return _at_once(call)
    if call.dropout and not is_plain(call.query, call.keys, call.values):
        return None
    if call.value_term is not None and band_of(call) is None:
        return None
    products = call.products()
    return None if products is None else _tiled(call, products, widened(call.values))


def bare(call: Call) -> bool:
    """Whether torch's function takes a softmax as it is, with no gradient: steps of decoding have no time."""
    query, keys, values = call.query, call.keys, call.values
    return (
        type(call.score) is ScaledDot
        and is_plain(query, keys, values)  # a tracer must not see what follows: it asks for sizes
        and (call.mask is None or (type(call.mask) is Causal and query.shape[-2] == 1))  # one sees all
        and call.sink is None
        and call.value_term is None
        and not call.dropout
        and call.factor == 1.0
        and sum(size != 1 for size in query.shape[:-2]) <= 2
        and query.shape[:-2] == keys.shape[:-2] == values.shape[:-2]
        and query.shape[-1] == keys.shape[-1] == values.shape[-1]
        and query.dtype in WIDE
        and query.numel() > 0 < keys.numel()
        and query.stride(-1) == keys.stride(-1) == values.stride(-1) == 1
        and not call.tracked
    )


def _at_once(call: Call) -> Tensor:
    assert isinstance(call.score, ScaledDot)
    query, keys, values, batch = call.query, call.keys, call.values, call.query.shape[:-2]
    if len(batch) != 2:  # torch has kernels for four axes: those of size 1 come and go
        two = [size for size in batch if size != 1]
        two = [1] * (2 - len(two)) + two
        query, keys, values = (t.view(*two, *t.shape[-2:]) for t in (query, keys, values))
    context = F.scaled_dot_product_attention(query, keys, values, scale=call.score.scale)
    return context if len(batch) == 2 else context.view(*batch, *context.shape[-2:])


def _tiled(call: Call, products: Products, values: Tensor) -> Tensor:
    query, keys, m, n = products.query, products.keys, call.m, call.n
    if n == 0 or m == 0 or 0 in call.batch:
        return values.new_zeros(*call.batch, m, values.shape[-1]) + 0 * query.sum()
    band = band_of(call) if call.value_term is not None else None
    bare = products.bare and band is None
    causal = type(call.mask) is Causal and m == n and bare and not call.dropout  # the kernel's own
    bare = call.mask is None and bare and call.sink is None
    layout = Layout.of(call.batch, keys, values, most=1 << 62 if bare else SHARED)
    q = layout.shaped(query, 2, whole=True)  # (a, b, g, m, d)
    k, v = (layout.shaped(t, 2)[:, :, 0] for t in (keys, values))
    k, v = (t.expand(*q.shape[:2], *t.shape[-2:]) for t in (k, v))
    if bare and q.shape[2] > 1:  # each key meets all queries: one tile, however they are ordered
        q = q.flatten(2, 3).unsqueeze(2)
    terms = Terms(layout, None if causal else call.mask, m, n, cap=products.cap)
    bias = table = sink = None
    if products.bias is not None:
        bias = products.bias if products.bias.dim() > 1 else products.bias.reshape(1, -1)
        bias = layout.shaped(bias.to(q.dtype), 2)
    if products.distance is not None:
        table = layout.shaped(products.distance.table.to(q.dtype), 2)
        terms = Terms(layout, terms.mask, m, n, products.distance.first, products.cap)
    if call.sink is not None:
        sink = layout.shaped(call.sink.to(q.dtype), 1)
    if not call.dropout and products.cap is None:  # the kernel wants one width
        width = max(q.shape[-1], v.shape[-1])
        q, k, v = (padded(t, width) for t in (q, k, v))
    vectors = None
    if band is not None and isinstance(call.value_term, RelativeValues):
        vectors = padded(call.value_term.a.to(q.dtype), v.shape[-1])
    q, k, v = (t if t.stride(-1) == 1 or t.shape[-1] == 1 else t.contiguous() for t in (q, k, v))
    gaps = table is None and band is None
    tiles = tiles_of(terms.mask, q.shape[3], n, len(call.batch), q.device, gaps=gaps)
    tiles = tiles if band is None else in_rows(tiles)
    seed = int(torch.randint(0, 1 << 62, ())) if call.dropout else 0
    softmax = Softmax(terms, tiles, causal, call.dropout, seed, band)
    context = _run((q, k, v, bias, table, sink, vectors), softmax)
    if context.shape[-1] != values.shape[-1]:
        context = context[..., : values.shape[-1]]
    return context.reshape(*call.batch, m, values.shape[-1])


def _run(inputs: Inputs, softmax: Softmax) -> Tensor:
    if not torch.is_grad_enabled() or not any(t is not None and t.requires_grad for t in inputs):
        return softmax.forward(inputs)[0]
    run: Callable[..., Tensor] = _Flash.apply
    return run(*inputs, softmax)


class _Flash(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *tensors, softmax = inputs
        context: Tensor
        context, sums = softmax.forward(tensors)
        mask = softmax.terms.mask  # its tensors are saved so that torch sees whether they were changed
        held = [t for part in mask.parts() for t in vars(part).values()] if mask is not None else []
        ctx.softmax = softmax
        ctx.save_for_backward(*tensors, context, sums, *(t for t in held if isinstance(t, Tensor)))
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        inputs, (context, sums) = saved[:7], saved[7:9]
        needed = ctx.needs_input_grad[:7]
        if not torch.is_grad_enabled():
            return *ctx.softmax.backward(inputs, context, sums, gradient, needed), None
        apart: Any = [None if t is None else t.view_as(t) for t in inputs]  # even where they are one tensor
        again = by_plain_steps(ctx.softmax, apart)
        wanted = [t for t, need in zip(apart, needed, strict=True) if need]
        grads = iter(torch.autograd.grad(again, wanted, gradient, create_graph=True, allow_unused=True))
        return *(next(grads) if need else None for need in needed), None
