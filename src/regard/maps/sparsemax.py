"""Sparsemax: the point of the simplex nearest to the scores.

    π(θ) = argmin_{p ∈ Δⁿ} ‖p − θ‖² = [θ − τ1]₊      with τ such that Σⱼ pⱼ = 1

Weights can be exactly 0. The Jacobian is diag(s) − ssᵀ/‖s‖₁, sⱼ = 1 if pⱼ > 0 else 0:
it depends on the support alone, so a gradient never reaches a key outside it.

Martins & Astudillo (2016), "From Softmax to Sparsemax", arXiv:1602.02068, Algorithm 1.
"""

import torch
from torch import Tensor

from regard.core.shapes import check_float
from regard.kernels.operators import row_operator
from regard.maps.table import register


def jacobian_product(p: Tensor, g: Tensor) -> Tensor:
    """(diag(s) − ssᵀ/‖s‖₁) g, for weights and gradients (..., n)."""
    s = (p > 0).to(p.dtype)  # (..., n)
    mean = torch.where(p > 0, g, 0).sum(-1, keepdim=True) / s.sum(-1, keepdim=True).clamp(min=1)  # (..., 1)
    return torch.where(p > 0, g - mean, 0)


def sorted_sparsemax(scores: Tensor) -> Tensor:
    """The map by sorting, for devices without a kernel."""
    theta = scores - scores.amax(-1, keepdim=True)
    top = theta.sort(-1, descending=True).values  # (..., n)
    k = torch.arange(1, top.shape[-1] + 1, device=top.device)  # (n,)
    excess = top.cumsum(-1) - 1  # (..., n)
    size = (k * top > excess).sum(-1, keepdim=True)  # (..., 1), the size of the support
    tau = excess.gather(-1, size - 1) / size  # (..., 1)
    return (theta - tau).clamp(min=0)


_sparsemax = row_operator(
    "sparsemax", kernels="regard.kernels.sparsemax", product=jacobian_product, twin=sorted_sparsemax
)


@register(sparse=True)
def sparsemax(scores: Tensor) -> Tensor:
    """Map scores (..., n) to weights (..., n). A score of −inf gets weight 0."""
    check_float("scores", scores)
    return _sparsemax(scores)
