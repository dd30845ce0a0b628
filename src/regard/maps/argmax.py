"""Argmax (hard attention): all weight on the key of highest score.

    π(θ) = argmax_{p ∈ Δⁿ} pᵀθ,      max_{p ∈ Δⁿ} pᵀθ = maxⱼ θⱼ

At ties the maximum is attained on a whole face of the simplex; the key that comes first is taken. The
weights are constant between ties, so the gradient is 0: to learn through it, an estimator is needed.
"""

import torch
from torch import Tensor

from regard.maps.table import register


@register(sparse=True, differentiable=False)
def argmax(scores: Tensor) -> Tensor:
    """Map scores (..., n) to weights (..., n): 1 for the first key of highest score, 0 for the others."""
    first = scores.argmax(-1, keepdim=True)  # (..., 1)
    keys = torch.arange(scores.shape[-1], device=scores.device)  # (n,)
    flat = torch.sign(scores) * 0  # zeros that autograd knows to come from the scores
    return flat + (keys == first).to(scores.dtype)
