"""SparseMAP under vmap, jacrev and the compiler: the face is found again wherever it is needed.

How many vertices a face has cannot be known before it is solved, so it cannot be handed from the forward to
the backward pass where shapes must be known. Solving twice is the price.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.kernels.common.operator import in_front, like, make_operator, opaque
from regard.kernels.sparsemap.sparsemap_batch import best, jacobian_product, solve

Pair = tuple[Tensor, Tensor]  # one for the scores (*batch, m, n), one for the transitions (*batch, s, s)
FLOPS = 1000  # per score


def _nearest(scores: Tensor, transitions: Tensor, kind: int, limit: int) -> Tensor:
    return solve(scores, transitions, kind, limit, complete=False).marginals.to(scores.device)


def _product(
    scores: Tensor, transitions: Tensor, gradient: Tensor, along: Tensor, kind: int, limit: int
) -> Pair:
    answer, turned = jacobian_product(solve(scores, transitions, kind, limit), gradient, along)
    return answer.to(scores.device), turned.to(scores.device)


def nothing_along(transitions: Tensor, gradient: Tensor, scores: Tensor) -> Tensor:
    """Zeros for the transitions that go with a gradient, which may have axes before those of the scores."""
    more = gradient.shape[: gradient.dim() - scores.dim()]
    return torch.zeros_like(transitions).expand(*more, *transitions.shape)


# The Jacobian: a symmetric linear map of gradient and along, constant in scores and transitions.


def _after(info: Any, tensor: Tensor, axis: int | None, before: int) -> Tensor:
    """The tensor with its batch axis, or a new one, after `before` others."""
    if axis is None:
        tensor, axis = tensor.expand(info.batch_size, *tensor.shape), 0
    return tensor.movedim(axis, before)


def _batched_product(
    info: Any, axes: Any, scores: Tensor, transitions: Tensor, gradient: Tensor, along: Tensor
) -> tuple[tuple[Tensor, ...], int]:
    extra, first = gradient.dim() - scores.dim() - (axes[2] is not None) + (axes[0] is not None), 0
    if axes[0] is not None or axes[1] is not None:
        (scores, transitions), _ = in_front(info, axes, scores, transitions)
        first = extra
    gradient, along = _after(info, gradient, axes[2], first), _after(info, along, axes[3], first)
    return (scores, transitions, gradient, along), first


def _product_gradients(ctx: Any, gradient: Tensor, along: Tensor) -> tuple[None, None, Tensor, Tensor]:
    return None, None, *jacobian_functorch(*ctx.saved_tensors, gradient, along, *ctx.settings)


def _product_tangents(ctx: Any, _: Any, __: Any, gradient: Tensor, along: Tensor) -> Pair:
    return jacobian_functorch(*ctx.saved_tensors, gradient, along, *ctx.settings)


# The Jacobian at scores and transitions times gradient and along, which may have axes before theirs.
jacobian_functorch: Callable[..., Pair] = make_operator(
    "sparsemap_jacobian",
    "(Tensor scores, Tensor transitions, Tensor gradient, Tensor along, int kind, int limit)"
    " -> (Tensor, Tensor)",
    _product,
    saved=lambda inputs, answer: inputs[:2],
    backward=_product_gradients,
    jvp=_product_tangents,
    fake=lambda scores, transitions, gradient, along, *_: (like(gradient), like(along)),
    batched=_batched_product,
    flops=FLOPS,
    differentiable=2,
)


# The marginals.


def _gradients(ctx: Any, gradient: Tensor) -> Pair:
    scores, transitions = ctx.saved_tensors
    along = nothing_along(transitions, gradient, scores)
    return jacobian_functorch(scores, transitions, gradient, along, *ctx.settings)


def _tangent(ctx: Any, gradient: Tensor | None, along: Tensor | None) -> Tensor:
    scores, transitions = ctx.saved_tensors
    gradient = torch.zeros_like(scores) if gradient is None else gradient
    along = torch.zeros_like(transitions) if along is None else along
    return jacobian_functorch(scores, transitions, gradient, along, *ctx.settings)[0]


# Marginals as `sparsemap_operator.nearest` has them.
nearest_functorch: Callable[[Tensor, Tensor, int, int], Tensor] = make_operator(
    "sparsemap",
    "(Tensor scores, Tensor transitions, int kind, int limit) -> Tensor",
    _nearest,
    saved=lambda inputs, answer: inputs[:2],
    backward=_gradients,
    jvp=_tangent,
    flops=FLOPS,
)


def _batched_best(info: Any, axes: Any, *inputs: Any) -> tuple[Tensor, int]:
    tensors, at = in_front(info, axes, *inputs[:2])
    return best_functorch(*tensors, *inputs[2:]), at


# The best vertex as `sparsemap_batch.best` has it; no gradient.
best_functorch: Callable[..., Tensor] = opaque(
    "structure_best",
    "(Tensor scores, Tensor transitions, int kind, int limit) -> Tensor",
    best,
    fake=like,
    vmap=_batched_best,
    flops=FLOPS,
)
