"""What a structure is: a set of vertices a ∈ {0, 1}ᵈ, given by whoever can find the best of them.

    best(θ)     argmax_a  θᵀa                                  the MAP vertex
    nearest(θ)  argmax_μ  θᵀμ − ½‖μ‖²,  μ ∈ conv{a}            SparseMAP: the point of the polytope next to θ
    solve(θ)    the same, with the few vertices and the weights that make it: μ = Σₖ pₖ aₖ

A structure with a score of its own besides θ (the transitions of a chain) adds it to θᵀa, and its mean under
p to θᵀμ. Every method is batched over the axes before the last (`acts_on = "row"`) or the last two
(`acts_on = "matrix"`).
"""

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

from torch import Tensor


class Solution(NamedTuple):
    """SparseMAP in full: Σₖ weightsₖ structuresₖ = marginals."""

    marginals: Tensor  # μ, of the shape of the scores
    structures: Tensor  # (..., K, n) or (..., K, m, n): the vertices used, zeros where there are fewer than K
    weights: Tensor  # (..., K), descending, zeros where there are fewer than K
    gap: Tensor  # (...,): max over vertices of (θ − μ)ᵀ(a − μ), one more MAP call; 0 at the optimum


class Structure(ABC):
    """A set of vertices over scores (..., n) or (..., m, n).

    A score of −inf is never used. Where nothing may be used the answer is zeros; where something may and no
    vertex fits, it is a ValueError that names the scores and the batch index. NaN or +inf give NaN.
    """

    acts_on: Literal["row", "matrix"] = "row"
    simplex: bool = False  # whether every row of weights sums to 1, if anything in it may be used
    ordered: bool = False  # whether a higher score never has the lower weight
    neighbours: bool = False  # whether the order of the keys matters

    @abstractmethod
    def best(self, scores: Tensor) -> Tensor:
        """The vertex of the highest score, 0 or 1 like scores (..., n) or (..., m, n); it has no gradient."""

    @abstractmethod
    def nearest(self, scores: Tensor) -> Tensor:
        """The marginals of SparseMAP, like scores (..., n) or (..., m, n); differentiable."""

    @abstractmethod
    def solve(self, scores: Tensor) -> Solution:
        """The marginals with the few structures and weights that make them, and the duality gap."""
