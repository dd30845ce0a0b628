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

import torch
from torch import Tensor

from regard.core.shapes import check, check_float, widened
from regard.kernels.chains.transitions import check_states, matched
from regard.kernels.sparsemap.binary_chain_operator import nearest_in_chain
from regard.kernels.sparsemap.sparsemap_operator import solve_chain
from regard.maps.chain import Chain
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
    check_float("scores", scores)
    count = check_states(states, state)
    if states is None:
        check("scores", scores, "... n")
    else:
        check("scores", scores, "... n s", s=states)
    wide = widened(scores)
    T = matched(transitions, wide, states)
    if states is not None:
        weights = solve_chain(wide, T)[..., state]
    elif state % count == 1:
        weights = nearest_in_chain(wide, T)
    else:  # the same chain with the states' names exchanged
        weights = nearest_in_chain(torch.where(wide == -torch.inf, wide, -wide), T.flip(-1, -2))
    return weights.to(scores.dtype)


class SparseMapChain(Chain):
    """SparseMAP of a chain that keeps its transitions, given or learned, as `Chain` does."""

    facts = MAPS["sparsemap_chain"]

    def forward(self, scores: Tensor) -> Tensor:
        """Map scores (..., heads, m, n), or (..., n) if heads is 1; with states, on one last axis more."""
        if self.heads > 1:
            check("scores", scores, "... heads m n" + (" s" if self.states else ""), heads=self.heads)
        T = self.transitions.unsqueeze(1) if self.heads > 1 else self.transitions[0]
        return sparsemap_chain(scores, T, states=self.states, state=self.state)
