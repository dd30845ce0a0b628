"""A chain: a state for every key, and a score for the states of every two neighbours.

    Σᵢ θᵢzᵢ + Σᵢ T[zᵢ, zᵢ₊₁],  z ∈ {0, 1}ⁿ        or, with more states,        Σᵢ θᵢ[zᵢ] + Σᵢ T[zᵢ, zᵢ₊₁]

SparseMAP over a binary chain needs no active set (`maps/sparsemap_chain.py`). `solve` decomposes its
marginals into level sets {i : μᵢ > u}, u uniform on [0, 1]. Then a key has state 1 with probability μᵢ, and
neighbours with marginals a and b differ with probability |a − b|, the smallest possible, which is optimal for
attractive transitions. For repulsive ones every second key is flipped. There is one more set than distinct
marginals.
"""

import torch
from torch import Tensor

from regard.core.shapes import check, check_float, widened
from regard.kernels.chains.transitions import check_states, matched
from regard.kernels.sparsemap.binary_chain_operator import nearest_in_chain
from regard.kernels.sparsemap.sparsemap_batch import CHAIN
from regard.kernels.sparsemap.sparsemap_operator import best
from regard.structures.built_in import BuiltIn
from regard.structures.cuts import intervals
from regard.structures.structure import Solution


class Chain(BuiltIn):
    """All sequences of states: of two for scores (..., n), or with states=s of s for scores (..., n, s).

    `transitions` is t of T = tI, or T (..., s, s), [from, to], as in `maps.sparsemap_chain`.
    """

    kind = CHAIN
    neighbours = True

    def __init__(self, transitions: float | Tensor = 1.0, *, states: int | None = None) -> None:
        check_states(states)
        self.transitions, self.states = transitions, states
        self.acts_on = "row" if states is None else "matrix"

    def _matched(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of at least float32, and transitions (..., s, s) that broadcast to their rows."""
        check_float("scores", scores)
        if self.states is None:
            check("scores", scores, "... n")
        else:
            check("scores", scores, "... n s", s=self.states)
        wide = widened(scores)
        return wide, matched(self.transitions, wide, self.states)

    def _scores(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Scores as float64 (*batch, n, s), 0 for state 0 of a binary chain; transitions (*batch, s, s)."""
        theta, T = self._matched(scores)
        theta, T = theta.double(), T.double()
        if self.states is None:
            theta = torch.stack([torch.where(theta == -torch.inf, theta, 0), theta], -1)
        return theta, T.expand(*theta.shape[:-2], *T.shape[-2:])

    def best(self, scores: Tensor) -> Tensor:
        """The sequence with the highest score, like scores: 1 where a key has state 1, or at its state."""
        if self.states is not None:
            return super().best(scores)
        theta, T = self._scores(scores.detach())
        return best(theta, T, CHAIN, 0)[..., 1].to(scores.dtype)

    def nearest(self, scores: Tensor) -> Tensor:
        """The marginals of SparseMAP, like scores; differentiable in them and in the transitions."""
        if self.states is not None:
            return super().nearest(scores)
        return nearest_in_chain(*self._matched(scores)).to(scores.dtype)

    def solve(self, scores: Tensor) -> Solution:
        """The marginals, the sequences and weights whose mixture they are, and the gap."""
        if self.states is not None:
            return super().solve(scores)
        marginals = self.nearest(scores)
        theta, T = (t.detach() for t in self._scores(scores))
        theta, visible = theta[..., 1], theta[..., 1] != -torch.inf
        mu = nearest_in_chain(theta, T)
        repels = (T[..., 0, 0] + T[..., 1, 1] < T[..., 0, 1] + T[..., 1, 0]).unsqueeze(-1)
        flipped = repels & visible & (visible.cumsum(-1) % 2 == 0)  # (..., n)
        level = torch.where(flipped, 1 - mu, mu)
        middles, weights = intervals(level, theta)
        inside = (level.unsqueeze(-2) > middles.unsqueeze(-1)) ^ flipped.unsqueeze(-2)  # (..., K, n)
        inside = inside & visible.unsqueeze(-2) & (weights != 0).unsqueeze(-1)
        slopes = theta - mu
        top = _values(self.best(slopes).unsqueeze(-2) == 1, slopes, T).squeeze(-1)
        gap = top - (weights * _values(inside, slopes, T)).sum(-1)
        gap = torch.where(visible.any(-1), gap, 0)
        return Solution(marginals, *(x.to(scores.dtype) for x in (inside, weights, gap)))

    def __repr__(self) -> str:
        return f"Chain({self.transitions}, states={self.states})"


def _values(inside: Tensor, scores: Tensor, transitions: Tensor) -> Tensor:
    """The scores (..., K) of sequences (..., K, n) under scores (..., n) and transitions (..., 2, 2)."""
    total = torch.where(inside, scores.unsqueeze(-2), 0).sum(-1)
    visible, order = (scores != -torch.inf).sort(dim=-1, descending=True, stable=True)  # visible keys first
    z = inside.gather(-1, order.unsqueeze(-2).expand_as(inside)).long()
    pairs = transitions.flatten(-2).unsqueeze(-2).expand(*z.shape[:-1], 4)
    return total.add(
        (pairs.gather(-1, 2 * z[..., :-1] + z[..., 1:]) * visible[..., 1:].unsqueeze(-2)).sum(-1)
    )
