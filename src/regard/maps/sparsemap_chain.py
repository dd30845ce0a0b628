"""SparseMAP of a chain: each key is in or out, neighbours prefer to agree, and a weight can be 0 or 1.

    π(θ) = argmax_μ θᵀμ + E[Σᵢ T[zᵢ, zᵢ₊₁]] − ½‖μ‖²,  μ = E[z], over all distributions of z ∈ {0, 1}ⁿ

The chain of `chain`, whose weights are never 0, with a square in the place of its entropy. Where neighbours
attract, T₀₀ + T₁₁ > T₀₁ + T₁₀, it is fusedmax with a box in the place of the simplex: stretches of keys have
one weight. With the default, T = I, more than 30 % of the weights are 0 for standard normal scores. Weights
are made of straight pieces in θ and T: the Jacobian averages within each stretch strictly between 0 and 1. At
T₀₀ + T₁₁ = T₀₁ + T₁₀, where neighbours do not matter, that of T is the one for attraction.

With more states the scores θᵢ[a] have one for each, μ the marginals of all of them, and the weights are those
of one state. (With states=2 it is not the binary chain: ½‖μ‖² counts both.) Keys at −inf (in all states) are
taken out and the others close up.

Niculae, Martins, Blondel & Cardie (2018), "SparseMAP: Differentiable Sparse Structured Inference",
arXiv:1802.04223. That the binary chain is a total variation prox, and needs no active set, is in
`kernels/sparsemap/binary_chain_kernel.py`.
"""

from torch import Tensor

from regard.kernels.sparsemap.binary_chain_operator import nearest_in_chain
from regard.kernels.sparsemap.sparsemap_operator import solve_chain
from regard.maps.chain import Chain, marginals
from regard.maps.table import MAPS, register


@register(simplex=False, sparse=True, ordered=False, neighbours=True, guard=False)
def sparsemap_chain(
    scores: Tensor, transitions: float | Tensor = 1.0, *, states: int | None = None, state: int = -1
) -> Tensor:
    """Map scores (..., n) to weights (..., n); with states=s, scores (..., n, s) to weights (..., n).

    `transitions` is t of T = tI, or T itself, [from, to]: (s, s), or with axes before that broadcast to those
    of the rows. They may be learned. `state` is the one whose marginals are the weights: the last, if not
    given.
    """
    return marginals(scores, transitions, states, state, nearest_in_chain, solve_chain)


class SparseMapChain(Chain):
    """SparseMAP of a chain that keeps its transitions, given or learned, as `Chain` does."""

    facts = MAPS["sparsemap_chain"]
