"""Sparsemax as an operator: the kernel, its Jacobian, and the map in torch for other devices.

    π(θ) = [θ − τ1]₊        J = diag(s) − ssᵀ/‖s‖₁,  sⱼ = 1 if pⱼ > 0 else 0

Martins & Astudillo (2016), "From Softmax to Sparsemax", arXiv:1602.02068, Algorithm 1.
"""

import torch
from torch import Tensor

from regard.kernels.row_maps.row_operator import row_operator


def by_sorting(scores: Tensor) -> Tensor:
    """The map as the paper has it, for devices without a kernel: scores (..., n) to weights (..., n)."""
    top = scores.amax(-1, keepdim=True)  # (..., 1)
    x = scores - top  # π(θ + c1) = π(θ), and this one cannot overflow
    theta = x.sort(-1, descending=True).values  # (..., n)
    k = torch.arange(1, x.shape[-1] + 1, device=x.device)  # (n,)
    excess = theta.cumsum(-1) - 1  # (..., n)
    size = (k * theta > excess).sum(-1, keepdim=True).clamp(min=1)  # (..., 1), the size of the support
    tau = excess.gather(-1, size - 1) / size  # (..., 1)
    tau = tau + ((x - tau).clamp(min=0).sum(-1, keepdim=True) - 1) / size  # undoes the rounding of the cumsum
    return torch.where(top == -torch.inf, 0, (x - tau).clamp(min=0))


def jacobian_product(p: Tensor, g: Tensor) -> Tensor:
    """(diag(s) − ssᵀ/‖s‖₁) g at weights p (..., n), for g (..., n)."""
    s = p.sign()  # (..., n); NaN stays NaN
    inside = torch.where(p == 0, 0, s * g)  # whatever g is outside
    mean = inside.sum(-1, keepdim=True) / s.sum(-1, keepdim=True).clamp(min=1)  # (..., 1)
    return inside - s * mean


sparsemax_operator = row_operator(
    "sparsemax",
    kernels="regard.kernels.row_maps.sparsemax_kernel",
    product=jacobian_product,
    reference=by_sorting,
)
