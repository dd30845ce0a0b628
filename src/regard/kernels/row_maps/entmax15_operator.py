"""1.5-entmax as an operator: the kernel, its Jacobian, and the map in torch for other devices.

    π(θ) = [θ/2 − τ1]₊²        J = diag(s) − ssᵀ/‖s‖₁,  s = √p

Peters, Niculae & Martins (2019), "Sparse Sequence-to-Sequence Models", arXiv:1905.05702, Algorithm 2.
"""

import torch
from torch import Tensor

from regard.kernels.row_maps.row_operator import row_operator


def by_sorting(scores: Tensor) -> Tensor:
    """The map as the paper has it, for devices without a kernel: scores (..., n) to weights (..., n)."""
    top = scores.amax(-1, keepdim=True)  # (..., 1)
    x = (scores - top) / 2  # π(θ + c1) = π(θ), and this one cannot overflow
    theta = x.sort(-1, descending=True).values.clamp(min=-2)  # (..., n); below −1 is outside
    k = torch.arange(1, x.shape[-1] + 1, device=x.device)  # (n,)
    mean = theta.cumsum(-1) / k  # (..., n)
    spread = (theta**2).cumsum(-1) - k * mean**2
    taus = mean - ((1 - spread) / k).clamp(min=0).sqrt()
    size = (taus <= theta).sum(-1, keepdim=True).clamp(min=1)  # (..., 1), the size of the support
    tau = taus.gather(-1, size - 1)  # (..., 1)
    for _ in range(2):  # Σ (u − change)² = 1 on the support {u > 0}: undoes the rounding of the cumsums
        u = (x - tau).clamp(min=0)
        total, square, size = (f.sum(-1, keepdim=True) for f in (u, u**2, u > 0))
        tau = tau + (square - 1) / (total + (total**2 - size * (square - 1)).clamp(min=0).sqrt())
    return torch.where(top == -torch.inf, 0, (x - tau).clamp(min=0) ** 2)


def jacobian_product(p: Tensor, g: Tensor) -> Tensor:
    """(diag(s) − ssᵀ/‖s‖₁) g at weights p (..., n), for g (..., n)."""
    outside = p == 0
    s = torch.where(outside, 0, torch.where(outside, 1, p).sqrt())  # (..., n); √ has no slope at 0
    sg = torch.where(outside, 0, s * g)  # whatever g is outside
    size = s.sum(-1, keepdim=True)  # (..., 1)
    return sg - s * (sg.sum(-1, keepdim=True) / torch.where(size == 0, 1, size))


entmax15_operator = row_operator(
    "entmax15",
    kernels="regard.kernels.row_maps.entmax15_kernel",
    product=jacobian_product,
    reference=by_sorting,
)
