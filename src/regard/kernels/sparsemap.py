"""SparseMAP as an operator: the nearest point of a polytope, and its exact, sparse derivatives.

    μ = argmax over μ = Ap, p ∈ Δ of  θᵀμ + bᵀp − ½‖μ‖²        b: 0, or the sum of a path's transitions

The Jacobian is constant on each face: J = A K Aᵀ for θ, A K Nᵀ for transitions (N counts them in each path).
So a gradient is pulled back by a linear map, and the second derivative is that same map again. Where nobody
but autograd looks on, the face is kept from the forward pass; under vmap, jacrev or the compiler it is found
again, since its size cannot be known beforehand. Everything is computed in float64 on the CPU.

Niculae, Martins, Blondel & Cardie (2018), "SparseMAP: Differentiable Sparse Structured Inference",
arXiv:1802.04223.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from regard.kernels.operators import is_plain
from regard.kernels.sparsemap_again import Pair, again, best_again, nothing_along, pulled
from regard.kernels.sparsemap_batch import CHAIN, Solved, pull, solve
from regard.kernels.sparsemap_batch import best as best_at_once


class _KeptPull(Function):  # no transform, no compiler: the face of the forward pass is at hand
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, along: Tensor, again: Any, solved: Solved) -> Pair:
        ctx.again, ctx.solved = again, solved
        return pull(solved, gradient, along)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, along: Tensor) -> tuple[Any, ...]:
        return *_pulled_kept(gradient, along, ctx.again, ctx.solved), None, None


def _pulled_kept(gradient: Tensor, along: Tensor, again: Any, solved: Solved) -> Pair:
    if not is_plain(gradient):
        scores, transitions, limit = again
        return pulled(scores, transitions, gradient, along, solved.kind, limit)
    if not torch.is_grad_enabled():
        return pull(solved, gradient, along)
    run: Callable[..., Pair] = _KeptPull.apply
    return run(gradient, along, again, solved)


class _Kept(Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, transitions: Tensor, limit: int, solved: Solved) -> Tensor:
        ctx.again, ctx.solved = (scores.detach(), transitions.detach(), limit), solved
        return solved.marginals.to(scores.device, copy=True)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        scores, transitions, _ = ctx.again
        along = nothing_along(transitions, gradient, scores)
        return *_pulled_kept(gradient, along, ctx.again, ctx.solved), None, None


def kept(scores: Tensor, transitions: Tensor, limit: int, solved: Solved) -> Tensor:
    """The marginals of what has been solved, as a differentiable function of scores and transitions."""
    run: Callable[..., Tensor] = _Kept.apply
    return run(scores, transitions, limit, solved)


def nearest(scores: Tensor, transitions: Tensor, kind: int, limit: int) -> Tensor:
    """Marginals of float64 scores (*batch, m, n), transitions (*batch, s, s): see `sparsemap_batch.solve`."""
    tracked = torch.is_grad_enabled() and (scores.requires_grad or transitions.requires_grad)
    if not (is_plain(scores) and is_plain(transitions)) or forward_ad._current_level >= 0:
        return again(scores, transitions, kind, limit, tracked)
    solved = solve(scores, transitions, kind, limit, complete=tracked)
    return kept(scores, transitions, limit, solved) if tracked else solved.marginals.to(scores.device)


def best(scores: Tensor, transitions: Tensor, kind: int, limit: int) -> Tensor:
    """The best vertex of scores (*batch, m, n), transitions (*batch, s, s): see `sparsemap_batch.best`."""
    run = best_at_once if is_plain(scores) else best_again
    return run(scores, transitions, kind, limit)


def solve_chain(scores: Tensor, transitions: Tensor) -> Tensor:
    """SparseMAP marginals (..., n, s) of a chain with s states, differentiable in scores and transitions.

    For scores (..., n, s) and transitions (s, s) or (..., s, s), [from, to], which broadcast to the same
    axes before. A state of −inf is forbidden; a position where all are is taken out, and its neighbours close
    up. No path that fits: a ValueError. Computed in float64, returned in the dtype of the scores.
    """
    theta, moves = scores.double(), transitions.double()
    moves = moves.expand(*scores.shape[:-2], *moves.shape[-2:])
    return nearest(theta, moves, CHAIN, 0).to(scores.dtype)
