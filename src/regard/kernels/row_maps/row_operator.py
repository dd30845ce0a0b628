"""Row maps as operators: a Numba kernel that autograd, functorch, the compiler and fake tensors can all use.

A row map acts on the last axis. Its Jacobian J is symmetric, as that of every gradient of a convex function,
and can be written in terms of the map's own output p. These pieces make it whole:

- `kernels`, the name of a module with `forward(start, stop, scores, weights, *settings)` and
  `backward(start, stop, weights, gradient, answer, *settings)`, compiled loops over the rows start … stop of
  C-contiguous arrays (rows, n). It is imported when the first kernel runs, since it imports Numba;
- `product(p, g, *settings)`, J(p)·g in differentiable torch: second derivatives flow through p;
- `reference(scores, *settings)`, the map in torch, for other devices.

An opaque operator inside an `autograd.Function`, because a formula registered with the operator itself
(`register_autograd`) fails under `jacrev` and gives silent zeros under `jacfwd`.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.utils.flop_counter import register_flop_formula

from regard.core.shapes import check, widened
from regard.kernels.common.operator import is_plain, refuse_nested_forward_mode
from regard.kernels.common.pool import load_kernels, over_rows

LEAST = {"forward": 1 << 15, "backward": 1 << 18}  # scores that are worth waking a thread for


def _run(way: str, kernels: str, settings: tuple[float, ...], *tensors: Tensor) -> Tensor:
    """Call the kernel forward or backward on plain tensors seen as (rows, n)."""
    rows = [(t.detach() if t.requires_grad else t).contiguous() for t in tensors]
    answer = torch.empty_like(rows[0])
    size = answer.numel()
    if size:
        n = answer.shape[-1]
        arrays = [t.numpy().reshape(-1, n) for t in (*rows, answer)]
        over_rows(getattr(load_kernels(kernels), way), size // n, size, *arrays, *settings, least=LEAST[way])
    return answer


def row_operator(
    name: str,
    *,
    kernels: str,
    product: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    flops: int = 8,  # per score
    **settings: type,  # name=float or name=int: plain numbers that follow the scores
) -> Callable[..., Tensor]:
    """Make the function from scores (..., n) and settings to weights (..., n)."""

    def forward_by_kernel(scores: Tensor, *settings: float) -> Tensor:
        return _run("forward", kernels, settings, scores)

    def backward_by_kernel(weights: Tensor, gradient: Tensor, *settings: float) -> Tensor:
        return _run("backward", kernels, settings, weights, gradient)

    def batched(info: Any, in_dims: tuple[int, ...], scores: Tensor, *settings: float) -> tuple[Tensor, int]:
        return apply(scores.movedim(in_dims[0], 0), *settings), 0  # the keys stay last

    numbers = "".join(f", {kind.__name__} {setting}" for setting, kind in settings.items())
    opaque = torch.library.custom_op(
        f"regard::{name}", forward_by_kernel, mutates_args=(), schema=f"(Tensor scores{numbers}) -> Tensor"
    )
    opaque.register_fake(lambda scores, *_: torch.empty_like(scores, memory_format=torch.contiguous_format))
    opaque.register_vmap(batched)
    operator = getattr(torch.ops.regard, name)
    register_flop_formula(operator)(lambda shape, *_, **__: flops * prod(shape))

    def undifferentiated(scores: Tensor, *settings: float) -> Tensor:
        if scores.is_cpu:
            return operator(scores, *settings)  # type: ignore[no-any-return]
        return reference(scores, *settings) if scores.numel() else scores.clone()

    class Compilable(Function):
        @staticmethod
        def forward(scores: Tensor, *settings: float) -> Tensor:
            return (forward_by_kernel if is_plain(scores) else undifferentiated)(scores, *settings)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
            ctx.save_for_backward(output)
            ctx.settings = inputs[1:]

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            (weights,) = ctx.saved_tensors
            # Gradients are enabled where a second derivative may follow: create_graph, functorch, compiler.
            by_kernel = is_plain(gradient) and is_plain(weights) and not torch.is_grad_enabled()
            answer = (backward_by_kernel if by_kernel else product)(weights, gradient, *ctx.settings)
            return answer, *(None for _ in ctx.settings)

        vmap = staticmethod(batched)

    class Differentiable(Compilable):  # Dynamo refuses a Function that has the jvp of forward mode
        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
            Compilable.setup_context(ctx, inputs, output)
            ctx.save_for_forward(output)

        @staticmethod
        def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
            (weights,) = ctx.saved_tensors
            return product(weights, tangent, *ctx.settings)  # J = Jᵀ

    # Function.apply looks at signatures for 40 µs before it calls the apply of its base, which is all that is
    # needed outside functorch.
    apply_plainly: Callable[..., Tensor] = super(Function, Differentiable).apply

    def apply(scores: Tensor, *settings: float) -> Tensor:
        differentiated = (scores.requires_grad and torch.is_grad_enabled()) or forward_ad._current_level >= 0
        run: Callable[..., Tensor]
        if torch.compiler.is_compiling():
            run = Compilable.apply if differentiated else undifferentiated
        elif is_plain(scores):
            run = apply_plainly if differentiated else forward_by_kernel
        else:
            refuse_nested_forward_mode()
            run = Differentiable.apply
        return run(scores, *settings)

    def row_map(scores: Tensor, *settings: float) -> Tensor:
        if scores.dim() == 0:
            check("scores", scores, "... n")
        wide = widened(scores)
        weights = apply(wide, *settings)
        return weights if wide is scores else weights.to(scores.dtype)

    row_map.__name__ = row_map.__qualname__ = name
    return row_map
