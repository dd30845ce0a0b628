"""Tree: projective dependency trees with one root.

Scores are [..., i, j] for word j as the head of word i, and [..., i, i] for i as the root: each word attends
to its head, the root to itself. Projective: all words between a word and its head descend from the head. A
word whose row or column is fully masked is removed from the sentence; so a mask of the padded keys is enough.
"""

from torch import Tensor

from regard.kernels.sparsemap.sparsemap_batch import TREE
from regard.structures.built_in import BuiltIn, check_square


class Tree(BuiltIn):
    """Projective trees over n words: scores (..., n, n)."""

    acts_on = "matrix"
    kind = TREE
    simplex = True
    neighbours = True

    def _scores(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        theta, nothing = super()._scores(scores)
        check_square("scores", scores)
        return theta, nothing
