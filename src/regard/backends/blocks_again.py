"""The blocks of a call as one Function, done again in backward, one after the other.

A graph per block, as checkpointing makes, leaves small objects between the large ones of each block, so that
the memory of the process grows with m × n even where that of the tensors does not. This needs to know every
tensor that may get a gradient: a score or map that brings others takes the checkpoints.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.backends.call import Call
from regard.kernels.common.operator import is_plain

Run = Callable[[Call], Tensor]


def known(call: Call, run: Run) -> list[Tensor] | None:
    """All tensors that the context of this call has a gradient for; None if they cannot be known."""
    found = [call.query, call.keys, call.values, *call.parameters()]
    if not is_plain(*found[:3]) or any(type(t) not in (Tensor, torch.nn.Parameter) for t in found):
        return None
    if any(t.grad_fn is not None for t in found[3:]):
        return None
    state = torch.get_rng_state()
    inputs = [t.detach().requires_grad_() for t in found[:3]]
    with torch.enable_grad():
        one = run(replace(call, query=inputs[0], keys=inputs[1], values=inputs[2]).rows(0, 1))
    torch.set_rng_state(state)
    ours = {id(t) for t in (*inputs, *found[3:])}
    nodes, seen = [one.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in ours:
            return None
        nodes += [parent for parent, _ in node.next_functions]
    return found


def filled(call: Call, blocks: Iterable[Call], run: Run) -> Tensor:
    """Context (..., m, d_v), one block after the other written into it: see above why."""
    context, start = None, 0
    for block in blocks:
        part = run(block)
        if context is None:
            context = part.new_empty(*part.shape[:-2], call.m, part.shape[-1])
        context[..., start : start + part.shape[-2], :] = part
        start += part.shape[-2]
    assert context is not None  # only large calls come here
    return context


def in_blocks(call: Call, cut: Callable[[Call], Iterable[Call]], run: Run, tensors: list[Tensor]) -> Tensor:
    """Context (..., m, d_v) of a call whose differentiable tensors are these."""
    function: Callable[..., Tensor] = _Blocks.apply
    return function(call, cut, run, *tensors)


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: Call, cut: Any, run: Run, *tensors: Tensor) -> Tensor:
        ctx.call, ctx.cut, ctx.run = call, cut, run
        ctx.state = torch.get_rng_state() if call.dropout else None
        ctx.save_for_backward(*tensors)
        return filled(call, cut(call), run)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        now = torch.get_rng_state()
        if ctx.state is not None:
            torch.set_rng_state(ctx.state)  # dropout draws the same again, block after block
        try:
            return None, None, None, *_gradients(ctx, ctx.saved_tensors, gradient)
        finally:
            torch.set_rng_state(now)


def _gradients(ctx: Any, saved: Sequence[Tensor], gradient: Tensor) -> list[Tensor | None]:
    needed = ctx.needs_input_grad[3:]
    if torch.is_grad_enabled():
        return _differentiable(ctx, saved, gradient, needed)
    keys, values = (t.detach().requires_grad_(need) for t, need in zip(saved[1:3], needed[1:3], strict=True))
    call = replace(ctx.call, query=saved[0].detach(), keys=keys, values=values)
    found: list[Any] = [torch.zeros_like(t) if need else None for t, need in zip(saved, needed, strict=True)]
    start, blocks = 0, iter(ctx.cut(call))
    while start < call.m:
        with torch.enable_grad():  # a block may have a part of the keys
            block = next(blocks)
        query = block.query.detach().requires_grad_(needed[0])
        leaves = [t for t, need in zip((query, keys, values, *saved[3:]), needed, strict=True) if need]
        with torch.enable_grad():
            context = ctx.run(replace(block, query=query))
        stop = start + context.shape[-2]
        parts = torch.autograd.grad(context, leaves, gradient[..., start:stop, :], allow_unused=True)
        wholes = [(at, whole) for at, whole in enumerate(found) if whole is not None]
        for (at, whole), part in zip(wholes, parts, strict=True):
            if part is not None:
                (whole[..., start:stop, :] if at == 0 else whole).add_(part)
        start = stop
    return found


def _differentiable(
    ctx: Any, saved: Sequence[Tensor], gradient: Tensor, needed: Sequence[bool]
) -> list[Tensor | None]:
    """The same for create_graph: all blocks at once."""
    inputs = [t.view_as(t) for t in saved[:3]]  # apart, even where they are one tensor
    call = replace(ctx.call, query=inputs[0], keys=inputs[1], values=inputs[2])
    context = torch.cat([ctx.run(block) for block in ctx.cut(call)], -2)
    wanted = [t for t, need in zip((*inputs, *saved[3:]), needed, strict=True) if need]
    grads = iter(torch.autograd.grad(context, wanted, gradient, create_graph=True, allow_unused=True))
    return [next(grads) if need else None for need in needed]
