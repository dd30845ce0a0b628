"""Continuous softmax: a Gaussian density over positions, and values that are functions of the position.

    p(t) = N(t; μ, σ²)        z = E_p[V(t)],   V(t) = Bᵀψ(t),   B = GV        π(θ) = Gᵀ E_p[ψ]

The density has the mean and variance of the discrete softmax of the scores (`regard.maps.continuous`), the
values are fitted by ridge regression over radial basis functions (`regard.continuous.ridge`). The weights are
smooth in the scores, can be negative, and sum only nearly to 1.

Martins et al. (2020), "Sparse and Continuous Attention Mechanisms", arXiv:2006.07214.
"""

from regard.continuous import Gaussian, Gaussian2D
from regard.maps.continuous import Continuous


class ContinuousSoftmax(Continuous):
    """Continuous softmax with its settings kept; `density` shows the Gaussian behind the weights."""

    kinds = Gaussian, Gaussian2D


continuous_softmax = ContinuousSoftmax.function("continuous_softmax")
