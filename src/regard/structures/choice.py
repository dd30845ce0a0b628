"""Choice: one key of n. Its polytope is the simplex, and its SparseMAP is sparsemax."""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.core.shapes import check_float
from regard.kernels.operators import row_operator
from regard.kernels.sparsemap_batch import CHOICE
from regard.structures.built_in import BuiltIn


def _product(p: Tensor, g: Tensor) -> Tensor:
    """J g at weights p (..., n): g minus its mean, both over the support."""
    s = p.sign()  # NaN stays NaN
    inside = torch.where(p == 0, 0, s * g)
    return inside - s * (inside.sum(-1, keepdim=True) / s.sum(-1, keepdim=True).clamp(min=1))


def _elsewhere(scores: Tensor) -> Tensor:
    return _nearest(scores.cpu()).to(scores.device)


_nearest: Callable[[Tensor], Tensor] = row_operator(
    "choice", kernels="regard.kernels.sparsemax", product=_product, twin=_elsewhere
)


class Choice(BuiltIn):
    """One key of n: scores (..., n)."""

    kind = CHOICE
    simplex = True
    ordered = True

    def nearest(self, scores: Tensor) -> Tensor:
        """The marginals of SparseMAP, like scores (..., n), by the kernel of sparsemax; differentiable."""
        check_float("scores", scores)
        return _nearest(scores)
