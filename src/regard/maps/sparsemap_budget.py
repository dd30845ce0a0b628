"""SparseMAP of a budget: at most k keys in all, each looked at in full, in part or not at all.

    π(θ) = argmin_μ ‖μ − θ‖²,  μ ∈ conv{z ∈ {0, 1}ⁿ : Σⱼ zⱼ ≤ k} = {μ ∈ [0, 1]ⁿ : Σⱼ μⱼ ≤ k}
         = clip(θ − τ, 0, 1)

with τ = 0 if that spends at most k, else τ > 0 such that Σⱼ μⱼ = k. Not a distribution: a key's weight is the
chance that it is among those picked. The Jacobian is I − 11ᵀ/|F| between the keys F with 0 < μ < 1 where the
budget is spent, I where it is not, and 0 elsewhere; a row that spends it to rounding counts as spent.

Niculae, Martins, Blondel & Cardie (2018), "SparseMAP: Differentiable Sparse Structured Inference",
arXiv:1802.04223. For this polytope no active set is needed.
"""

from torch import Tensor

from regard.maps.table import register
from regard.structures.budget import Budget


@register(simplex=False, sparse=True, guard=False)
def sparsemap_budget(scores: Tensor, k: int = 2) -> Tensor:
    """Map scores (..., n) to weights (..., n) from 0 to 1 that sum to at most `k`."""
    return Budget(k).nearest(scores)
