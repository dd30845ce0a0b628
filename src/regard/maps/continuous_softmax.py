"""Continuous softmax: a Gaussian density over positions, and values that are functions of the position.

    p(t) = N(t; μ, σ²)        z = E_p[V(t)],   V(t) = Bᵀψ(t),   B = GV        π(θ) = Gᵀ E_p[ψ]

The density has the mean and variance of the discrete softmax of the scores (`regard.maps.continuous`), the
values are fitted by ridge regression over radial basis functions (`regard.continuous.ridge`). The weights are
smooth in the scores, can be negative, and sum only nearly to 1.

Martins et al. (2020), "Sparse and Continuous Attention Mechanisms", arXiv:2006.07214.
"""

from torch import Tensor

from regard.continuous import Gaussian, Gaussian2D
from regard.maps.continuous import Continuous, Shape, weights
from regard.maps.table import MAPS, register


@register(simplex=False, ordered=False, neighbours=True, guard=False)
def continuous_softmax(
    scores: Tensor, *, basis: int | None = None, ridge: float = 0.1, shape: Shape = None
) -> Tensor:
    """Map scores (..., n) to weights (..., n).

    `basis` is the number of functions along each axis (32 on the line, 10 in an image), `ridge` the penalty λ
    of the fit, `shape` the (h, w) of an image.
    """
    return weights((Gaussian, Gaussian2D), scores, basis, ridge, shape)


class ContinuousSoftmax(Continuous):
    """Continuous softmax with its settings kept; `density` shows the Gaussian behind the weights."""

    facts = MAPS["continuous_softmax"]
    kinds = Gaussian, Gaussian2D
