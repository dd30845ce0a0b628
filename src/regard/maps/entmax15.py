"""1.5-entmax: half-way between softmax and sparsemax.

    π(θ) = argmax_{p ∈ Δⁿ} pᵀθ + H(p) = [θ/2 − τ1]₊²      with τ such that Σⱼ pⱼ = 1

where H(p) = (4/3) Σⱼ (pⱼ − pⱼ^{3/2}) is the Tsallis entropy of order 1.5. Weights can be exactly 0, but
reach it smoothly, unlike sparsemax's. The Jacobian is diag(s) − ssᵀ/‖s‖₁ with s = √p.

Peters, Niculae & Martins (2019), "Sparse Sequence-to-Sequence Models", arXiv:1905.05702, Algorithm 2.
"""

from typing import Never

from torch import Tensor

from regard.kernels.row_maps.entmax15_operator import entmax15_operator
from regard.maps.table import check_call, register


@register(sparse=True, guard=False)
def entmax15(scores: Tensor, **other: Never) -> Tensor:
    """Map scores (..., n) to weights (..., n). A score of −inf gets weight 0."""
    check_call("entmax15", scores, other)
    return entmax15_operator(scores)
