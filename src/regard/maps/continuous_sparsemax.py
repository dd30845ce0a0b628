"""Continuous sparsemax: a truncated parabola over positions, exactly 0 outside an interval or an ellipse.

    p(t) = [−τ − (t − μ)²/2σ²]₊        z = E_p[V(t)],   V(t) = Bᵀψ(t),   B = GV        π(θ) = Gᵀ E_p[ψ]

The density has the mean and variance of the discrete softmax of the scores (`regard.maps.continuous`), the
values are fitted by ridge regression over radial basis functions (`regard.continuous.ridge`). It is the
density that is sparse: the weights are those of a fit, smooth in the scores, can be negative, and sum only
nearly to 1.

Martins et al. (2020), "Sparse and Continuous Attention Mechanisms", arXiv:2006.07214.
"""

from regard.continuous import TruncatedParabola, TruncatedParaboloid
from regard.maps.continuous import Continuous


class ContinuousSparsemax(Continuous):
    """Continuous sparsemax with its settings kept; `density` shows the parabola behind the weights."""

    kinds = TruncatedParabola, TruncatedParaboloid


continuous_sparsemax = ContinuousSparsemax.function("continuous_sparsemax")
