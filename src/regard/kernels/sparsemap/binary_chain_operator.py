"""SparseMAP of a binary chain as an operator of scores and couplings.

As in `operators.py`, but the Jacobian needs more than the weights: the kernel leaves a trace of its segments
(`binary_chain.py`). Weights are made of straight pieces in scores and couplings, so that given the trace the
first derivatives are constant, and the second ones 0. If J is the Jacobian of the scores, that of the
couplings is JA, with A (n, 3) their pull on each key.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.utils.flop_counter import register_flop_formula

from regard.kernels.common.operator import is_plain, refuse_nested_forward_mode
from regard.kernels.common.pool import load_kernels, over_rows

Traced = tuple[Tensor, Tensor]  # weights, and what the derivatives need of each key: (..., n) each
VISIBLE, FREE, STARTS, FLIPPED, WALL = 1, 2, 4, 8, 16  # of a trace, see binary_chain.py
LEAST = 1 << 12  # keys per thread, each some 20 ns


def _forward(scores: Tensor, couplings: Tensor) -> Traced:
    """By the kernel; tensors of other devices are sent to the CPU and back."""
    here = scores.detach().cpu().contiguous()
    weights, trace = torch.empty_like(here), torch.empty_like(here, dtype=torch.int8)
    if here.numel():
        rows = [tensor.numpy().reshape(-1, here.shape[-1]) for tensor in (here, weights, trace)]
        rows.insert(1, couplings.detach().cpu().double().reshape(-1, 3).contiguous().numpy())
        run = load_kernels("regard.kernels.sparsemap.binary_chain_kernel").forward
        over_rows(run, len(rows[0]), here.numel(), *rows, least=LEAST)
    return weights.to(scores.device), trace.to(scores.device)


def _backward(weights: Tensor, trace: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    gradient = gradient.detach().contiguous()
    answer = torch.empty_like(gradient)
    slopes = torch.zeros(*gradient.shape[:-1], 3, dtype=torch.float64)
    if answer.numel():
        tensors = (weights, trace, gradient, answer, slopes)
        rows = [tensor.detach().numpy().reshape(-1, tensor.shape[-1]) for tensor in tensors]
        run = load_kernels("regard.kernels.sparsemap.binary_chain_kernel").backward
        over_rows(run, len(rows[0]), answer.numel(), *rows, least=LEAST)
    return answer, slopes


def averaged(weights: Tensor, trace: Tensor, g: Tensor) -> Tensor:
    """J g with respect to the scores, in differentiable torch: (..., n) each."""
    free, starts = trace & FREE > 0, trace & STARTS > 0
    g = torch.where(free, torch.where(trace & FLIPPED > 0, -g, g), 0)
    segment = starts.cumsum(-1)  # (..., n)
    nothing = g.new_zeros(1).expand(*g.shape[:-1], g.shape[-1] + 1)
    totals = nothing.scatter_add(-1, segment, g)
    sizes = nothing.scatter_add(-1, segment, free.to(g.dtype)).clamp(min=1)
    means = torch.where(free, (totals / sizes).gather(-1, segment), 0)
    return torch.where(weights.isnan(), torch.nan, torch.where(trace & FLIPPED > 0, -means, means))


def pulls(trace: Tensor, dtype: torch.dtype) -> Tensor:
    """(..., n, 3): how far a unit of each coupling moves a segment's sum, at one of its keys."""
    visible = trace > 0
    follows = visible & (visible.cumsum(-1) > 1)
    precedes = visible & (visible.flip(-1).cumsum(-1).flip(-1) > 1)
    walls = torch.where(trace & STARTS > 0, trace // WALL - 2, 0)
    walls = torch.where(trace & FLIPPED > 0, -walls, walls)
    return torch.stack([precedes.to(dtype), follows.to(dtype), walls.to(dtype)], -1)


def jacobian_products(weights: Tensor, trace: Tensor, g: Tensor, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """The gradients of scores (..., n) and couplings (..., 3), from g (..., n), in differentiable torch."""
    slopes = averaged(weights, trace, g)
    return slopes, (slopes.to(kind).unsqueeze(-2) @ pulls(trace, kind)).squeeze(-2)


def _batched(info: Any, in_dims: tuple[Any, Any], scores: Tensor, couplings: Tensor) -> tuple[Traced, Any]:
    scores, couplings = (
        t.expand(info.batch_size, *t.shape) if at is None else t.movedim(at, 0)
        for t, at in zip((scores, couplings), in_dims, strict=True)
    )
    return coupled(scores, couplings), (0, 0)


_opaque = torch.library.custom_op(
    "regard::sparsemap_chain",
    _forward,
    mutates_args=(),
    schema="(Tensor scores, Tensor couplings) -> (Tensor, Tensor)",
)
_opaque.register_vmap(_batched)


@_opaque.register_fake
def _(scores: Tensor, couplings: Tensor) -> Traced:
    weights = torch.empty_like(scores, memory_format=torch.contiguous_format)
    return weights, torch.empty_like(weights, dtype=torch.int8)


@register_flop_formula(torch.ops.regard.sparsemap_chain)
def _(shape: tuple[int, ...], *_: Any, **__: Any) -> int:
    return 20 * prod(shape)


class _Compilable(Function):  # as in kernels/operators.py, but the Jacobian needs more than the weights
    @staticmethod
    def forward(scores: Tensor, couplings: Tensor) -> Traced:
        plain = is_plain(scores) and is_plain(couplings)
        return (_forward if plain else torch.ops.regard.sparsemap_chain)(scores, couplings)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Traced) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output)
        ctx.kind = inputs[1].dtype

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor, Tensor]:
        weights, trace = ctx.saved_tensors
        if is_plain(gradient) and is_plain(weights) and not torch.is_grad_enabled():
            return _backward(weights, trace, gradient)
        return jacobian_products(weights, trace, gradient, ctx.kind)

    vmap = staticmethod(_batched)


class _Differentiable(_Compilable):
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Traced) -> None:
        _Compilable.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*output)

    @staticmethod
    def jvp(ctx: Any, moved: Tensor | None, coupled: Tensor | None) -> tuple[Tensor, None]:
        weights, trace = ctx.saved_tensors
        tangent = torch.zeros_like(weights) if moved is None else moved
        if coupled is not None:
            tangent = tangent + (pulls(trace, ctx.kind) @ coupled.unsqueeze(-1)).squeeze(-1).to(tangent.dtype)
        return averaged(weights, trace, tangent), None  # J = Jᵀ


_apply_plainly: Callable[..., Traced] = super(Function, _Differentiable).apply


def coupled(scores: Tensor, couplings: Tensor) -> Traced:
    """Weights and trace (..., n) for scores (..., n) and couplings (..., 3): left, right, ½t."""
    tracked = (scores.requires_grad or couplings.requires_grad) and torch.is_grad_enabled()
    differentiated = tracked or forward_ad._current_level >= 0
    run: Callable[..., Traced]
    if torch.compiler.is_compiling():
        run = _Compilable.apply if differentiated else torch.ops.regard.sparsemap_chain
    elif is_plain(scores) and is_plain(couplings):
        run = _apply_plainly if differentiated else _forward
    else:
        refuse_nested_forward_mode()
        run = _Differentiable.apply
    return run(scores, couplings)


# Of T₀₀, T₀₁, T₁₀, T₁₁: twice left, right and ½t, as binary_chain.py has them.
_COUPLINGS = ((-1.0, -1.0, 1.0), (-1.0, 1.0, -1.0), (1.0, -1.0, -1.0), (1.0, 1.0, 1.0))


def nearest_in_chain(scores: Tensor, transitions: Tensor) -> Tensor:
    """Weights (..., n) of a binary chain, for scores (..., n) and transitions (..., 2, 2)."""
    if is_plain(transitions) and bool(transitions.isinf().any()):
        raise ValueError(
            f"transitions must be finite for a binary chain; got {transitions.tolist()}. "
            "Use −1000 to forbid one."
        )
    T = transitions.double() if transitions.is_cpu else transitions  # not every device has float64
    half = torch.tensor(_COUPLINGS, dtype=T.dtype, device=T.device) / 2  # (4, 3)
    return coupled(scores, (T.flatten(-2) @ half).expand(*scores.shape[:-1], 3))[0]
