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


_sparsemax = row_operator(
    "sparsemax", kernels="regard.kernels.sparsemax", product=jacobian_product, twin=by_sorting
)


@register(sparse=True, guard=False)
def sparsemax(scores: Tensor) -> Tensor:
    """Map scores (..., n) to weights (..., n). A score of −inf gets weight 0."""
    check_float("scores", scores)
    return _sparsemax(scores)
