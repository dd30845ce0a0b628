"""Fusedmax of scores that are on the scale of the weights, as an operator.

    π(x) = sparsemax(prox(x)),      prox(x) = argmin_y ½‖y − x‖² + λ Σⱼ |yⱼ − yⱼ₋₁|

The Jacobian averages within each fused segment, then is sparsemax's: it needs the weights and where segments
begin. It is constant between changes of segments and support, so second derivatives are 0.
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

Segmented = tuple[Tensor, Tensor]  # weights, and True where a segment of the support begins: (..., n) each


def _forward(scores: Tensor, strength: float) -> Segmented:
    """By the kernel; tensors of other devices are sent to the CPU and back."""
    here = scores.detach().cpu().contiguous()
    weights, starts = torch.empty_like(here), torch.empty_like(here, dtype=torch.bool)
    if here.numel():
        rows = [tensor.numpy().reshape(-1, here.shape[-1]) for tensor in (here, weights, starts)]
        over_rows(
            load_kernels("regard.kernels.row_maps.fusedmax_kernel").forward,
            len(rows[0]),
            here.numel(),
            *rows,
            strength,
        )
    return weights.to(scores.device), starts.to(scores.device)


def _backward(weights: Tensor, starts: Tensor, gradient: Tensor) -> Tensor:
    gradient = gradient.detach().contiguous()
    answer = torch.empty_like(gradient)
    if answer.numel():
        rows = [t.detach().numpy().reshape(-1, answer.shape[-1]) for t in (weights, starts, gradient, answer)]
        over_rows(
            load_kernels("regard.kernels.row_maps.fusedmax_kernel").backward,
            len(rows[0]),
            answer.numel(),
            *rows,
        )
    return answer


def jacobian_product(weights: Tensor, starts: Tensor, g: Tensor) -> Tensor:
    """J g in differentiable torch, for weights, starts of segments and g, (..., n) each."""
    inside = weights > 0
    g = torch.where(inside, g, 0)
    mean = g.sum(-1, keepdim=True) / inside.sum(-1, keepdim=True).clamp(min=1)  # (..., 1)
    segment = starts.cumsum(-1)  # (..., n), those outside the support belong to any
    nothing = g.new_zeros(1).expand(*g.shape[:-1], g.shape[-1] + 1)
    totals = nothing.scatter_add(-1, segment, g)
    sizes = nothing.scatter_add(-1, segment, inside.to(g.dtype)).clamp(min=1)
    answer = torch.where(inside, (totals / sizes).gather(-1, segment) - mean, 0)
    return torch.where(weights.isnan(), torch.nan, answer)


def _batched(info: Any, in_dims: tuple[int, None], scores: Tensor, strength: float) -> tuple[Segmented, Any]:
    return segmented(scores.movedim(in_dims[0], 0), strength), (0, 0)


_opaque = torch.library.custom_op(
    "regard::fusedmax",
    _forward,
    mutates_args=(),
    schema="(Tensor scores, float strength) -> (Tensor, Tensor)",
)
_opaque.register_vmap(_batched)


@_opaque.register_fake
def _(scores: Tensor, strength: float) -> Segmented:
    weights = torch.empty_like(scores, memory_format=torch.contiguous_format)
    return weights, torch.empty_like(weights, dtype=torch.bool)


@register_flop_formula(torch.ops.regard.fusedmax)
def _(shape: tuple[int, ...], *_: Any, **__: Any) -> int:
    return 20 * prod(shape)


class _Compilable(Function):  # as in kernels/operators.py, but the Jacobian needs more than the weights
    @staticmethod
    def forward(scores: Tensor, strength: float) -> Segmented:
        return (_forward if is_plain(scores) else torch.ops.regard.fusedmax)(scores, strength)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Segmented) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor, None]:
        weights, starts = ctx.saved_tensors
        by_kernel = is_plain(gradient) and is_plain(weights) and not torch.is_grad_enabled()
        return (_backward if by_kernel else jacobian_product)(weights, starts, gradient), None

    vmap = staticmethod(_batched)


class _Differentiable(_Compilable):
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Segmented) -> None:
        _Compilable.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*output)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> tuple[Tensor, None]:
        weights, starts = ctx.saved_tensors
        return jacobian_product(weights, starts, tangent), None  # J = Jᵀ


_apply_plainly: Callable[..., Segmented] = super(Function, _Differentiable).apply


def segmented(scores: Tensor, strength: float) -> Segmented:
    differentiated = (scores.requires_grad and torch.is_grad_enabled()) or forward_ad._current_level >= 0
    run: Callable[..., Segmented]
    if torch.compiler.is_compiling():
        run = _Compilable.apply if differentiated else torch.ops.regard.fusedmax
    elif is_plain(scores):
        run = _apply_plainly if differentiated else _forward
    else:
        refuse_nested_forward_mode()
        run = _Differentiable.apply
    return run(scores, strength)
