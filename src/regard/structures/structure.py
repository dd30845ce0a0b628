"""The base class of structures: a set of vertices a ∈ {0, 1}ᵈ, given by an oracle for the best of them.

    best(θ)     argmax_a  θᵀa                                  the MAP vertex
    nearest(θ)  argmax_μ  θᵀμ − ½‖μ‖²,  μ ∈ conv{a}            SparseMAP: the point nearest to θ
    solve(θ)    the same, as a sparse mixture of vertices: μ = Σₖ pₖ aₖ

A structure with scores besides θ (the transitions of a chain) adds them to θᵀa, and their mean under p to
θᵀμ. Every method is batched over the axes before the last (`acts_on = "row"`) or the last two (`acts_on =
"matrix"`).
"""

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

from torch import Tensor


class Solution(NamedTuple):
    """SparseMAP with its mixture: Σₖ weightsₖ structuresₖ = marginals."""

    marginals: Tensor  # μ, of the shape of the scores
    structures: Tensor  # (..., K, n) or (..., K, m, n): the vertices used, zeros where there are fewer than K
    weights: Tensor  # (..., K), descending, zeros where there are fewer than K
    gap: Tensor  # (...,): max over vertices of (θ − μ)ᵀ(a − μ), one more MAP call; 0 at the optimum


class Structure(ABC):
    """A set of vertices over scores (..., n) or (..., m, n).

    A coordinate of score −inf is never used. If all are −inf the result is 0; if some are not and still no
    vertex is possible, a ValueError names the scores and the batch index. NaN or +inf give NaN.
    """

    acts_on: Literal["row", "matrix"] = "row"
    simplex: bool = False  # whether every row of weights with a visible key sums to 1
    ordered: bool = False  # whether a higher score never gets a lower weight
    neighbours: bool = False  # whether the order of the keys matters

    @abstractmethod
    def best(self, scores: Tensor) -> Tensor:
        """The vertex with the highest score, of 0 and 1, like scores (..., n) or (..., m, n); no gradient."""

    @abstractmethod
    def nearest(self, scores: Tensor) -> Tensor:
        """The marginals of SparseMAP, like scores (..., n) or (..., m, n); differentiable."""

    @abstractmethod
    def solve(self, scores: Tensor) -> Solution:
        """The marginals, the structures and weights whose mixture they are, and the duality gap."""
