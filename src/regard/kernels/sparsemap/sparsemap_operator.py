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

from regard.kernels.common.operator import is_plain
from regard.kernels.sparsemap.sparsemap_batch import CHAIN, Solved, jacobian_product, solve
from regard.kernels.sparsemap.sparsemap_batch import best as best_at_once
from regard.kernels.sparsemap.sparsemap_functorch import (
    Pair,
    best_functorch,
    jacobian_functorch,
    nearest_functorch,
    nothing_along,
)


class _KeptProduct(Function):  # no transform, no compiler: the face of the forward pass is at hand
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, along: Tensor, inputs: Any, solved: Solved) -> Pair:
        ctx.inputs, ctx.solved = inputs, solved
        return jacobian_product(solved, gradient, along)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, along: Tensor) -> tuple[Any, ...]:
        return *_kept_product(gradient, along, ctx.inputs, ctx.solved), None, None


def _kept_product(gradient: Tensor, along: Tensor, inputs: Any, solved: Solved) -> Pair:
    if not is_plain(gradient):
        scores, transitions, limit = inputs
        return jacobian_functorch(scores, transitions, gradient, along, solved.kind, limit)
    if not torch.is_grad_enabled():
        return jacobian_product(solved, gradient, along)
    run: Callable[..., Pair] = _KeptProduct.apply
    return run(gradient, along, inputs, solved)


class _Kept(Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, transitions: Tensor, limit: int, solved: Solved) -> Tensor:
        ctx.inputs, ctx.solved = (scores.detach(), transitions.detach(), limit), solved
        return solved.marginals.to(scores.device, copy=True)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        scores, transitions, _ = ctx.inputs
        along = nothing_along(transitions, gradient, scores)
        return *_kept_product(gradient, along, ctx.inputs, ctx.solved), None, None


def kept(scores: Tensor, transitions: Tensor, limit: int, solved: Solved) -> Tensor:
    """The marginals of what has been solved, as a differentiable function of scores and transitions."""
    run: Callable[..., Tensor] = _Kept.apply
    return run(scores, transitions, limit, solved)


def nearest(scores: Tensor, transitions: Tensor, kind: int, limit: int) -> Tensor:
    """Marginals of float64 scores (*batch, m, n), transitions (*batch, s, s): see `sparsemap_batch.solve`."""
    tracked = torch.is_grad_enabled() and (scores.requires_grad or transitions.requires_grad)
    if not (is_plain(scores) and is_plain(transitions)) or forward_ad._current_level >= 0:
        return nearest_functorch(scores, transitions, kind, limit)
    solved = solve(scores, transitions, kind, limit, complete=tracked)
    return kept(scores, transitions, limit, solved) if tracked else solved.marginals.to(scores.device)


def best(scores: Tensor, transitions: Tensor, kind: int, limit: int) -> Tensor:
    """The best vertex of scores (*batch, m, n), transitions (*batch, s, s): see `sparsemap_batch.best`."""
    run = best_at_once if is_plain(scores) else best_functorch
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
