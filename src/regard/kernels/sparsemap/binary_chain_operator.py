"""SparseMAP of a binary chain as an operator of scores and couplings.

The Jacobian needs more than the weights: the kernel leaves a trace of its segments (`binary_chain_kernel`).
Weights are made of straight pieces in scores and couplings, so that given the trace the
first derivatives are constant, and the second ones 0. If J is the Jacobian of the scores, that of the
couplings is JA, with A (n, 3) their pull on each key.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.kernels.common.operator import is_plain, like, make_operator
from regard.kernels.common.pool import load_kernels, over_rows

Traced = tuple[Tensor, Tensor]  # weights, and what the derivatives need of each key: (..., n) each
VISIBLE, FREE, STARTS, FLIPPED, WALL = 1, 2, 4, 8, 16  # of a trace, see binary_chain_kernel.py
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


def _kind(weights: Tensor) -> torch.dtype:
    return torch.float64 if weights.is_cpu else weights.dtype  # not every device has float64


def _gradients(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor, Tensor]:
    weights, trace = ctx.saved_tensors
    slopes, kind = averaged(weights, trace, gradient), _kind(weights)
    return slopes, (slopes.to(kind).unsqueeze(-2) @ pulls(trace, kind)).squeeze(-2)


def _tangent(ctx: Any, moved: Tensor | None, coupled: Tensor | None) -> tuple[Tensor, None]:
    weights, trace = ctx.saved_tensors
    tangent = torch.zeros_like(weights) if moved is None else moved
    if coupled is not None:
        pulled = pulls(trace, _kind(weights)) @ coupled.unsqueeze(-1)  # (..., n, 1)
        tangent = tangent + pulled.squeeze(-1).to(tangent.dtype)
    return averaged(weights, trace, tangent), None  # J = Jᵀ


def _fake(scores: Tensor, couplings: Tensor) -> Traced:
    return like(scores), like(scores).to(torch.int8)


# Weights and trace (..., n) for scores (..., n) and couplings (..., 3): left, right, ½t.
coupled: Callable[[Tensor, Tensor], Traced] = make_operator(
    "sparsemap_chain",
    "(Tensor scores, Tensor couplings) -> (Tensor, Tensor)",
    _forward,
    saved=lambda inputs, answer: answer,
    backward=_gradients,
    backward_by_kernel=_backward,
    jvp=_tangent,
    fake=_fake,
    flops=20,
)


# Of T₀₀, T₀₁, T₁₀, T₁₁: twice left, right and ½t, as binary_chain_kernel.py has them.
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
