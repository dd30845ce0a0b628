"""Choice: one key of n. Its polytope is the simplex, and its SparseMAP is sparsemax."""

from torch import Tensor

from regard.core.shapes import check_float
from regard.kernels.row_maps.sparsemax_operator import sparsemax_operator
from regard.kernels.sparsemap.sparsemap_batch import CHOICE
from regard.structures.built_in import BuiltIn


class Choice(BuiltIn):
    """One key of n: scores (..., n)."""

    kind = CHOICE
    simplex = True
    ordered = True

    def nearest(self, scores: Tensor) -> Tensor:
        """The marginals of SparseMAP, like scores (..., n), by the kernel of sparsemax; differentiable."""
        check_float("scores", scores)
        return sparsemax_operator(scores)
