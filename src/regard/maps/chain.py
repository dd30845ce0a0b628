"""Linear chain: neighbouring keys are chosen together, and the weight of a key is how likely it is chosen.

    p(z) ∝ exp(Σᵢ θᵢzᵢ + Σᵢ T[zᵢ, zᵢ₊₁]),  z ∈ {0, 1}ⁿ        π(θ)ᵢ = p(zᵢ = 1)

A conditional random field over the keys. With T = 0 it is the sigmoid; with T = tI, t > 0, keys are chosen
in stretches. Each weight is between 0 and 1, never at either, and their sum is the expected number of keys
chosen. With more states the scores θᵢ[a] have one for each, p(z) ∝ exp(Σᵢ θᵢ[zᵢ] + Σᵢ T[zᵢ, zᵢ₊₁]), and the
weights are the marginals of one of them.

Keys at −inf (in all states) are taken out and the others close up. By forward–backward; the Jacobian is the
covariance of the chain, and costs one more pass. Second derivatives, and first ones under transforms and in
what is compiled, are by prefix products in torch: linear in n too, but slower than the kernels.

Kim, Denton, Hoang & Rush (2017), "Structured Attention Networks", arXiv:1702.00887 (segmentation attention).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.core.shapes import check, check_float, widened
from regard.kernels.chains.chain_moments import moments
from regard.kernels.chains.chain_weights import weights
from regard.kernels.chains.transitions import check_states, matched
from regard.maps.table import MAPS, register


@register(simplex=False, ordered=False, neighbours=True, guard=False)
def chain(
    scores: Tensor, transitions: float | Tensor = 1.0, *, states: int | None = None, state: int = -1
) -> Tensor:
    """Map scores (..., n) to weights (..., n); with states=s, scores (..., n, s) to weights (..., n).

    `transitions` is t of T = tI, or T itself, [from, to]: (s, s), or with axes before that broadcast to
    those of the rows, as (heads, 1, s, s) does for scores (..., heads, m, n). They may be learned; −inf
    forbids one, and where that leaves no path at all, a ValueError says so. `state` is the one whose
    marginals are the weights: the last, if not given. A row of nothing has weights 0.
    """
    return marginals(scores, transitions, states, state, weights, _of_states)


def _of_states(scores: Tensor, transitions: Tensor) -> Tensor:
    return moments(scores, transitions).marginals


def marginals(
    scores: Tensor,
    transitions: float | Tensor,
    states: int | None,
    state: int,
    binary: Callable[[Tensor, Tensor], Tensor],  # scores (..., n) to weights (..., n) of state 1
    of_states: Callable[[Tensor, Tensor], Tensor],  # scores (..., n, s) to weights (..., n, s)
) -> Tensor:
    """The marginals (..., n) of one state of a chain, its scores and transitions checked."""
    check_float("scores", scores)
    count = check_states(states, state)
    if states is None:
        check("scores", scores, "... n")
    else:
        check("scores", scores, "... n s", s=states)
    wide = widened(scores)
    T = matched(transitions, wide, states)
    if states is not None:
        found = of_states(wide, T)[..., state]
    elif state % count == 1:
        found = binary(wide, T)
    else:  # the same chain with the states' names exchanged
        found = binary(torch.where(wide == -torch.inf, wide, -wide), T.flip(-1, -2))
    return found.to(scores.dtype)


class Chain(nn.Module):
    """A linear chain that keeps its transitions: given or learned, (states, states), one for each head.

    Without `states` it is binary, and maps scores (..., n); with it, scores (..., n, states). Transitions
    start as the identity if not given.
    """

    facts = MAPS["chain"]

    def __init__(
        self,
        states: int | None = None,
        *,
        transitions: float | Tensor = 1.0,
        learn: bool = True,
        heads: int = 1,
        state: int = -1,
    ) -> None:
        super().__init__()
        if heads < 1:
            raise ValueError(f"heads must be at least 1; got {heads}.")
        self.states, self.heads, self.state = states, heads, state
        s = check_states(states, state)
        if not isinstance(transitions, Tensor):
            transitions = transitions * torch.eye(s)
        wanted = [(s, s), (heads, s, s)]
        if tuple(transitions.shape) not in wanted:
            raise ShapeError(
                f"transitions must be {wanted[0]} or {wanted[1]}; got {tuple(transitions.shape)}."
            )
        check_float("transitions", transitions)
        transitions = transitions.detach().expand(heads, s, s).clone()
        if learn:
            self.transitions = nn.Parameter(transitions)
        else:
            self.register_buffer("transitions", transitions)

    def forward(self, scores: Tensor) -> Tensor:
        """Map scores (..., heads, m, n), or (..., n) if heads is 1, to weights; states are one more axis."""
        if self.heads > 1:
            check("scores", scores, "... heads m n" + (" s" if self.states else ""), heads=self.heads)
        T = self.transitions.unsqueeze(1) if self.heads > 1 else self.transitions[0]
        return self.facts(scores, transitions=T, states=self.states, state=self.state)

    def extra_repr(self) -> str:
        learned = isinstance(self.transitions, nn.Parameter)
        return f"states={self.states}, learn={learned}, heads={self.heads}, state={self.state}"
