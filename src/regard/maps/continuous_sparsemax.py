"""Continuous sparsemax: a truncated parabola over positions, exactly 0 outside an interval or an ellipse.

    p(t) = [−τ − (t − μ)²/2σ²]₊        z = E_p[V(t)],   V(t) = Bᵀψ(t),   B = GV        π(θ) = Gᵀ E_p[ψ]

The density has the mean and variance of the discrete softmax of the scores (`regard.maps.continuous`), the
values are fitted by ridge regression over radial basis functions (`regard.continuous.ridge`). It is the
density that is sparse: the weights are those of a fit, smooth in the scores, can be negative, and sum only
nearly to 1.

Martins et al. (2020), "Sparse and Continuous Attention Mechanisms", arXiv:2006.07214.
"""

from torch import Tensor

from regard.continuous import TruncatedParabola, TruncatedParaboloid
from regard.maps.continuous import Continuous, Shape, weights
from regard.maps.table import MAPS, register


@register(simplex=False, ordered=False, neighbours=True, guard=False)
def continuous_sparsemax(
    scores: Tensor, *, basis: int | None = None, ridge: float = 0.1, shape: Shape = None
) -> Tensor:
    """Map scores (..., n) to weights (..., n).

    `basis` is the number of functions along each axis (32 on the line, 10 in an image), `ridge` the penalty λ
    of the fit, `shape` the (h, w) of an image.
    """
    return weights((TruncatedParabola, TruncatedParaboloid), scores, basis, ridge, shape)


class ContinuousSparsemax(Continuous):
    """Continuous sparsemax with its settings kept; `density` shows the parabola behind the weights."""

    facts = MAPS["continuous_sparsemax"]
    kinds = TruncatedParabola, TruncatedParaboloid
