"""Sparsemax: the point of the simplex nearest to the scores.

    π(θ) = argmin_{p ∈ Δⁿ} ‖p − θ‖² = [θ − τ1]₊      with τ such that Σⱼ pⱼ = 1

Weights can be exactly 0. The Jacobian is diag(s) − ssᵀ/‖s‖₁, sⱼ = 1 if pⱼ > 0 else 0:
it depends on the support alone, so a gradient never reaches a key outside it.

Martins & Astudillo (2016), "From Softmax to Sparsemax", arXiv:1602.02068, Algorithm 1.
"""

from typing import Never

from torch import Tensor

from regard.kernels.row_maps.sparsemax_operator import sparsemax_operator
from regard.maps.table import check_call, register


@register(sparse=True, guard=False)
def sparsemax(scores: Tensor, **other: Never) -> Tensor:
    """Map scores (..., n) to weights (..., n). A score of −inf gets weight 0."""
    check_call("sparsemax", scores, other)
    return sparsemax_operator(scores)
