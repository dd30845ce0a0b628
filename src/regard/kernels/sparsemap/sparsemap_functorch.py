"""SparseMAP under vmap, jacrev and the compiler: the face is found again wherever it is needed.

How many vertices a face has cannot be known before it is solved, so it cannot be handed from the forward to
the backward pass where shapes must be known. Solving twice is the price.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.utils.flop_counter import register_flop_formula

from regard.kernels.common.operator import refuse_nested_forward_mode
from regard.kernels.sparsemap.sparsemap_batch import best, jacobian_product, solve

Pair = tuple[Tensor, Tensor]  # one for the scores (*batch, m, n), one for the transitions (*batch, s, s)


def _nearest(scores: Tensor, transitions: Tensor, kind: int, limit: int) -> Tensor:
    return solve(scores, transitions, kind, limit, complete=False).marginals.to(scores.device)


def _product(
    scores: Tensor, transitions: Tensor, gradient: Tensor, along: Tensor, kind: int, limit: int
) -> Pair:
    answer, turned = jacobian_product(solve(scores, transitions, kind, limit), gradient, along)
    return answer.to(scores.device), turned.to(scores.device)


def _front(info: Any, tensor: Tensor, axis: int | None, before: int = 0) -> Tensor:
    """The tensor with its batched axis, or a new one, after `before` others."""
    if axis is None:
        tensor, axis = tensor.unsqueeze(0).expand(info.batch_size, *tensor.shape), 0
    return tensor.movedim(axis, before)


def _batched_nearest(
    info: Any, axes: Any, scores: Tensor, transitions: Tensor, kind: int, limit: int
) -> tuple[Tensor, int]:
    return nearest_functorch(
        _front(info, scores, axes[0]), _front(info, transitions, axes[1]), kind, limit
    ), 0


def _batched_best(
    info: Any, axes: Any, scores: Tensor, transitions: Tensor, kind: int, limit: int
) -> tuple[Tensor, int]:
    return best_functorch(_front(info, scores, axes[0]), _front(info, transitions, axes[1]), kind, limit), 0


def _batched_product(
    info: Any,
    axes: Any,
    scores: Tensor,
    transitions: Tensor,
    gradient: Tensor,
    along: Tensor,
    kind: int,
    limit: int,
) -> tuple[Pair, tuple[int, int]]:
    extra, first = gradient.dim() - scores.dim() - (axes[2] is not None) + (axes[0] is not None), 0
    if axes[0] is not None or axes[1] is not None:
        scores, transitions = _front(info, scores, axes[0]), _front(info, transitions, axes[1])
        first = extra
    gradient, along = _front(info, gradient, axes[2], first), _front(info, along, axes[3], first)
    return jacobian_functorch(scores, transitions, gradient, along, kind, limit), (first, first)


_operator = torch.library.custom_op(
    "regard::sparsemap",
    _nearest,
    mutates_args=(),
    schema="(Tensor scores, Tensor transitions, int kind, int limit) -> Tensor",
)
_operator.register_vmap(_batched_nearest)
_operator.register_fake(lambda scores, *_: torch.empty_like(scores, memory_format=torch.contiguous_format))
_product_operator = torch.library.custom_op(
    "regard::sparsemap_jacobian",
    _product,
    mutates_args=(),
    schema="(Tensor scores, Tensor transitions, Tensor gradient, Tensor along, int kind, int limit)"
    " -> (Tensor, Tensor)",
)
_product_operator.register_vmap(_batched_product)
_product_operator.register_fake(
    lambda scores, transitions, gradient, along, *_: (
        torch.empty_like(gradient, memory_format=torch.contiguous_format),
        torch.empty_like(along, memory_format=torch.contiguous_format),
    )
)
_best_operator = torch.library.custom_op(
    "regard::structure_best",
    best,
    mutates_args=(),
    schema="(Tensor scores, Tensor transitions, int kind, int limit) -> Tensor",
)
_best_operator.register_vmap(_batched_best)
_best_operator.register_fake(
    lambda scores, *_: torch.empty_like(scores, memory_format=torch.contiguous_format)
)
for _name in ("sparsemap", "sparsemap_jacobian", "structure_best"):
    register_flop_formula(getattr(torch.ops.regard, _name))(lambda shape, *_, **__: 1000 * prod(shape))


class _ProductCompilable(Function):
    """A symmetric linear map of gradient and along; constant in scores and transitions."""

    @staticmethod
    def forward(
        scores: Tensor, transitions: Tensor, gradient: Tensor, along: Tensor, kind: int, limit: int
    ) -> Pair:
        answer: Pair = torch.ops.regard.sparsemap_jacobian(scores, transitions, gradient, along, kind, limit)
        return answer

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Pair) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.settings = inputs[4:]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, along: Tensor) -> tuple[Any, ...]:
        scores, transitions = ctx.saved_tensors
        return (
            None,
            None,
            *jacobian_functorch(scores, transitions, gradient, along, *ctx.settings),
            None,
            None,
        )

    vmap = staticmethod(_batched_product)


class _ProductDifferentiable(_ProductCompilable):
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Pair) -> None:
        _ProductCompilable.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:2])

    @staticmethod
    def jvp(ctx: Any, _: Any, __: Any, gradient: Tensor, along: Tensor, *___: None) -> Pair:
        scores, transitions = ctx.saved_tensors
        return jacobian_functorch(scores, transitions, gradient, along, *ctx.settings)


def jacobian_functorch(
    scores: Tensor, transitions: Tensor, gradient: Tensor, along: Tensor, kind: int, limit: int
) -> Pair:
    """The Jacobian at scores and transitions times gradient and along, which may have axes before theirs."""
    run: Callable[..., Pair] = _ProductDifferentiable.apply
    if torch.compiler.is_compiling():
        run = _ProductCompilable.apply
    return run(scores, transitions, gradient, along, kind, limit)


def nothing_along(transitions: Tensor, gradient: Tensor, scores: Tensor) -> Tensor:
    """Zeros for the transitions that go with a gradient, which may have axes before those of the scores."""
    more = gradient.shape[: gradient.dim() - scores.dim()]
    return torch.zeros_like(transitions).expand(*more, *transitions.shape)


class _Compilable(Function):
    @staticmethod
    def forward(scores: Tensor, transitions: Tensor, kind: int, limit: int) -> Tensor:
        answer: Tensor = torch.ops.regard.sparsemap(scores, transitions, kind, limit)
        return answer

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.settings = inputs[2:]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        scores, transitions = ctx.saved_tensors
        along = nothing_along(transitions, gradient, scores)
        return *jacobian_functorch(scores, transitions, gradient, along, *ctx.settings), None, None

    vmap = staticmethod(_batched_nearest)


class _Differentiable(_Compilable):
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _Compilable.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:2])

    @staticmethod
    def jvp(ctx: Any, gradient: Tensor, along: Tensor, *_: None) -> Tensor:
        scores, transitions = ctx.saved_tensors
        gradient = torch.zeros_like(scores) if gradient is None else gradient
        along = torch.zeros_like(transitions) if along is None else along
        return jacobian_functorch(scores, transitions, gradient, along, *ctx.settings)[0]


def nearest_functorch(
    scores: Tensor, transitions: Tensor, kind: int, limit: int, tracked: bool = True
) -> Tensor:
    """Marginals as `sparsemap.nearest` has them; not `tracked`: nobody differentiates what is compiled."""
    run: Callable[..., Tensor] = torch.ops.regard.sparsemap
    if not torch.compiler.is_compiling():
        refuse_nested_forward_mode()
        run = _Differentiable.apply
    elif tracked:
        run = _Compilable.apply
    return run(scores, transitions, kind, limit)


def best_functorch(scores: Tensor, transitions: Tensor, kind: int, limit: int) -> Tensor:
    """The best vertex as `sparsemap_batch.best` has it, as an operator."""
    vertex: Tensor = torch.ops.regard.structure_best(scores, transitions, kind, limit)
    return vertex
