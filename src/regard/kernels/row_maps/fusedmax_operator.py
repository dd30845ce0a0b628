"""Fusedmax of scores that are on the scale of the weights, as an operator.

    π(x) = sparsemax(prox(x)),      prox(x) = argmin_y ½‖y − x‖² + λ Σⱼ |yⱼ − yⱼ₋₁|

The Jacobian averages within each fused segment, then is sparsemax's: it needs the weights and where segments
begin. It is constant between changes of segments and support, so second derivatives are 0.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.kernels.common.operator import like, make_operator
from regard.kernels.common.pool import load_kernels, over_rows

KERNELS = "regard.kernels.row_maps.fusedmax_kernel"
Segmented = tuple[Tensor, Tensor]  # weights, and True where a segment of the support begins: (..., n) each


def _forward(scores: Tensor, strength: float) -> Segmented:
    """By the kernel; tensors of other devices are sent to the CPU and back."""
    here = scores.detach().cpu().contiguous()
    weights, starts = torch.empty_like(here), torch.empty_like(here, dtype=torch.bool)
    if here.numel():
        rows = [tensor.numpy().reshape(-1, here.shape[-1]) for tensor in (here, weights, starts)]
        over_rows(load_kernels(KERNELS).forward, len(rows[0]), here.numel(), *rows, strength)
    return (weights, starts) if scores.is_cpu else (weights.to(scores.device), starts.to(scores.device))


def _backward(weights: Tensor, starts: Tensor, gradient: Tensor, strength: float) -> Tensor:
    gradient = gradient.detach().contiguous()
    answer = torch.empty_like(gradient)
    if answer.numel():
        rows = [t.detach().numpy().reshape(-1, answer.shape[-1]) for t in (weights, starts, gradient, answer)]
        over_rows(load_kernels(KERNELS).backward, len(rows[0]), answer.numel(), *rows)
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


def _fake(scores: Tensor, strength: float) -> Segmented:
    return like(scores), like(scores).bool()


def _gradient(ctx: Any, gradient: Tensor, _: Any) -> Tensor:
    weights, starts = ctx.saved_tensors
    return jacobian_product(weights, starts, gradient)


def _tangent(ctx: Any, tangent: Tensor) -> tuple[Tensor, None]:
    weights, starts = ctx.saved_tensors
    return jacobian_product(weights, starts, tangent), None  # J = Jᵀ


fusedmax_operator: Callable[[Tensor, float], Segmented] = make_operator(
    "fusedmax",
    "(Tensor scores, float strength) -> (Tensor, Tensor)",
    _forward,
    fake=_fake,
    flops=20,
    saved=lambda inputs, answer: answer,
    jvp=_tangent,
    backward=_gradient,
    backward_by_kernel=_backward,
)
