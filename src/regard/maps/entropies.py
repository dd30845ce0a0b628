"""Tsallis α-entropies: how spread out weights are, each on the scale of its own map.

    H_α(p) = (1/(α(α − 1))) Σⱼ (pⱼ − pⱼ^α)      H₁(p) = −Σⱼ pⱼ log pⱼ

α-entmax(θ) is the p in the simplex with the largest pᵀθ + H_α(p). H₁ is Shannon's entropy in nats, H₂ half of
Gini's index, ½(1 − ‖p‖²). H_α is 0 if one key has all the weight and largest, (1 − n^{1−α})/(α(α − 1)), if
all have the same. The support size, the number of weights that are not 0, is what sparse maps keep small.

Tsallis (1988), "Possible generalization of Boltzmann–Gibbs statistics"; with the factor 1/α in Peters,
Niculae & Martins (2019), arXiv:1905.05702.
"""

import torch
from torch import Tensor

from regard.core.shapes import check, check_float, widened
from regard.kernels.row_maps.entmax_operator import phi
from regard.maps.entmax import check_alpha


def tsallis(weights: Tensor, alpha: float | Tensor = 1.0) -> Tensor:
    """H_α of weights (..., n): (...); alpha is at least 1, a number or a tensor that broadcasts to (..., 1).

    Differentiable in both. Shannon's entropy has infinite slope at a weight of 0, and is given the slope 0.
    """
    check_float("weights", weights)
    check("weights", weights, "... n")
    check_alpha(alpha, "weights", weights)
    p = widened(weights)
    alpha = torch.as_tensor(alpha, dtype=p.dtype, device=p.device)
    beta = (alpha - 1).expand(*p.shape[:-1], 1)
    log_p = torch.where(p == 0, 1, p).log()
    z = beta * log_p  # (..., n)
    near = z.abs() <= 0.5
    x = torch.where(near, z, 0)
    # (1 − p^β)/β, near β = 0 without a difference of equals
    far = -torch.expm1(torch.where(near, -1, z)) / torch.where(beta == 0, 1, beta)
    rate = torch.where(near, -log_p * (1 + x * phi(-x)), far)
    rate = torch.where(p == 0, torch.where(beta == 0, 0, 1 / torch.where(beta == 0, 1, beta)), rate)
    return ((p * rate).sum(-1, keepdim=True) / alpha).squeeze(-1).to(weights.dtype)


def support_size(weights: Tensor) -> Tensor:
    """The number of keys that weights (..., n) do not leave out: (...), integers."""
    check_float("weights", weights)
    check("weights", weights, "... n")
    return (weights != 0).sum(-1)
