"""SparseMAP: the point nearest to the scores in the polytope of a structure.

    π(θ) = argmax_{μ ∈ M} θᵀμ − ½‖μ‖² = argmin_{μ ∈ M} ‖μ − θ‖²,    M = conv{a : a is a structure}

The weights are the marginals of a mixture of a few structures: exactly 0 outside of them, and 0 and 1 where
the scores are clear enough. Any structure with a MAP oracle will do: one key of n (then it is sparsemax), at
most k keys, chains, matchings, trees, or your own function. `regard.structures` has them, and `solve` there
shows the few structures with their weights.

Niculae, Martins, Blondel & Cardie (2018), "SparseMAP: Differentiable Sparse Structured Inference",
arXiv:1802.04223.
"""

from torch import Tensor, nn

from regard.maps.table import Map, register
from regard.structures import Matching, Structure, Tree

_NOT_A_STRUCTURE = (
    "structure must be one of regard.structures, such as Tree(); got {}. "
    "For a function that finds the best vertex use regard.structures.Oracle(function)."
)


def sparsemap(scores: Tensor, structure: Structure) -> Tensor:
    """Map scores (..., n) or (..., m, n), as the structure has it, to marginals of the same shape."""
    if not isinstance(structure, Structure):
        raise TypeError(_NOT_A_STRUCTURE.format(type(structure).__name__))
    return structure.nearest(scores)


class SparseMap(nn.Module):
    """SparseMAP over a structure, as a map: Attention(map=SparseMap(Tree()))."""

    def __init__(self, structure: Structure):
        super().__init__()
        if not isinstance(structure, Structure):
            raise TypeError(_NOT_A_STRUCTURE.format(type(structure).__name__))
        self.structure = structure
        self.facts = Map(
            "sparsemap",
            sparsemap,
            "SparseMAP: the point nearest to the scores in the polytope of a structure.",
            acts_on=structure.acts_on,
            simplex=structure.simplex,
            sparse=True,
            ordered=structure.ordered,
            neighbours=structure.neighbours,
        )

    def forward(self, scores: Tensor) -> Tensor:
        """Map scores (..., n) or (..., m, n), as the structure has it, to marginals of the same shape."""
        return sparsemap(scores, self.structure)

    def extra_repr(self) -> str:
        return type(self.structure).__name__


@register(acts_on="matrix", simplex=False, sparse=True, ordered=False, guard=False)
def sparsemap_matching(scores: Tensor) -> Tensor:
    """Map scores (..., m, n) to marginals of one-to-one matchings (..., m, n); see `structures.Matching`."""
    return Matching().nearest(scores)


@register(acts_on="matrix", sparse=True, ordered=False, neighbours=True, guard=False)
def sparsemap_tree(scores: Tensor) -> Tensor:
    """Map scores (..., n, n) to marginals of projective trees (..., n, n); see `structures.Tree`."""
    return Tree().nearest(scores)
