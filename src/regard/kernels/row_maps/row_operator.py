"""Row maps as operators, each made of a kernel, a formula for its Jacobian and the map in torch.

A row map acts on the last axis. Its Jacobian J is symmetric, as that of every gradient of a convex function,
and can be written in terms of the map's own output p. These pieces make it whole:

- `kernels`, the name of a module with `forward(start, stop, scores, weights, *settings)` and
  `backward(start, stop, weights, gradient, answer, *settings)`, compiled loops over the rows start … stop of
  C-contiguous arrays (rows, n). It is imported when the first kernel runs, since it imports Numba;
- `product(p, g, *settings)`, J(p)·g in differentiable torch: second derivatives flow through p;
- `reference(scores, *settings)`, the map in torch, for other devices.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.core.shapes import check, widened
from regard.kernels.common.operator import make_operator
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

    def jacobian_product(ctx: Any, vector: Tensor) -> Tensor:  # J = Jᵀ: of gradients and of tangents
        return product(*ctx.saved_tensors, vector, *ctx.settings)

    numbers = "".join(f", {kind.__name__} {setting}" for setting, kind in settings.items())
    apply: Callable[..., Tensor] = make_operator(
        name,
        f"(Tensor scores{numbers}) -> Tensor",
        forward_by_kernel,
        saved=lambda inputs, weights: (weights,),
        backward=jacobian_product,
        backward_by_kernel=backward_by_kernel,
        jvp=jacobian_product,
        reference=reference,
        flops=flops,
    )

    def row_map(scores: Tensor, *settings: float) -> Tensor:
        if scores.dim() == 0:
            check("scores", scores, "... n")
        wide = widened(scores)
        weights = apply(wide, *settings)
        return weights if wide is scores else weights.to(scores.dtype)

    row_map.__name__ = row_map.__qualname__ = name
    return row_map
