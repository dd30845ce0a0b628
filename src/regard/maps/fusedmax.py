"""Fusedmax: sparse weights that are equal along stretches of neighbouring keys.

    π(θ) = argmin_{p ∈ Δⁿ} ½‖p − θ/γ‖² + λ Σⱼ |pⱼ − pⱼ₋₁| = sparsemax(prox(θ/γ)),
    prox(x) = argmin_y ½‖y − x‖² + λ Σⱼ |yⱼ − yⱼ₋₁|

The strength λ fuses neighbours, the temperature γ flattens. λ stands beside θ/γ, on the scale of the
weights: it is the paper's pᵀθ − γΩ(p) with Ω(p) = ½‖p‖² + λ Σⱼ |pⱼ − pⱼ₋₁|. (Treviso's slides write Ω
without λ, which is λ = 1.) λ = 0 is sparsemax.

Keys at −inf are taken out and the others close up: those on both sides of one are neighbours. The Jacobian
averages within each fused segment, then is sparsemax's; it is constant between changes of segments and
support.

Niculae & Blondel (2017), "A Regularized Framework for Sparse and Structured Neural Attention",
arXiv:1705.07704.
"""

from math import isfinite

import torch
from torch import Tensor

from regard.core.shapes import check, check_float, widened
from regard.kernels.row_maps.fusedmax_operator import fusedmax_operator
from regard.maps.softmax import from_top, tempered
from regard.maps.sparsemax import sparsemax
from regard.maps.table import register


@register(sparse=True, ordered=False, neighbours=True, guard=False)
def fusedmax(scores: Tensor, strength: float = 0.1, temperature: float | Tensor = 1.0) -> Tensor:
    """Map scores (..., n) to weights (..., n); λ is `strength`, γ is `temperature`."""
    check_float("scores", scores)
    if scores.dim() == 0:
        check("scores", scores, "... n")
    if not (strength >= 0 and isfinite(strength)):
        raise ValueError(f"strength must be at least 0 and finite; got {strength}. At 0 it is sparsemax.")
    theta = wide = widened(scores)
    if isinstance(temperature, Tensor) or temperature != 1:
        theta = tempered(from_top(wide), temperature)
        hidden, least = wide == -torch.inf, torch.finfo(theta.dtype).min
        theta = torch.where(hidden, theta, theta.clamp(min=least))  # a low key still keeps others apart
    weights = fusedmax_operator(theta, float(strength))[0] if strength else sparsemax(theta)
    return weights.to(scores.dtype)
