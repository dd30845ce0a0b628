"""Scalable maps: a temperature that falls with the number of keys, so that long rows stay sharp.

    p = map((δ + β (log n)^γ) θ)        β = softplus(b) and γ = tanh(g), learned for each head; δ = 1

With n keys softmax spreads: its largest weight falls as n grows, for scores of bounded spread. Scores times
log n do not. For any row map: 1.5-entmax makes it ASEntmax, softmax with β alone and γ = 1 the scalable
softmax.

n counts what a row can see: the scores that are not −inf.

Vasylenko et al. (2025), "Long-Context Generalization with Sparse Attention", arXiv:2506.16640; scalable
softmax: Nakanishi (2025), "Scalable-Softmax Is Superior for Attention", arXiv:2501.19399.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.maps.entmax15 import entmax15
from regard.maps.softmax import softmax
from regard.maps.table import facts_of


class Scalable(nn.Module):
    """Any row map of scores times δ + β (log n)^γ, with β and γ for each head."""

    def __init__(
        self,
        map: Callable[[Tensor], Tensor] = entmax15,
        heads: int = 1,
        *,
        delta: float = 1.0,
        learn_gamma: bool = True,
    ):
        super().__init__()
        facts = facts_of(map)
        if facts is None or facts.acts_on != "row":
            raise ValueError("a scalable map needs a row map of regard.MAPS, as entmax15 or softmax.")
        if heads < 1:
            raise ValueError(f"heads must be at least 1; got {heads}.")
        self.map, self.heads, self.delta, self.facts = map, heads, delta, facts
        self.b = nn.Parameter(torch.zeros(heads))
        self.g = nn.Parameter(torch.zeros(heads)) if learn_gamma else None

    @property
    def beta(self) -> Tensor:
        """(heads,), at least 0."""
        return F.softplus(self.b)

    @property
    def gamma(self) -> Tensor:
        """(heads,), between −1 and 1; 1 where it is not learned."""
        return torch.ones_like(self.b) if self.g is None else self.g.tanh()

    def forward(self, scores: Tensor) -> Tensor:
        """Map scores (..., heads, m, n), or (..., n) if heads is 1, to weights of the same shape."""
        hidden = scores == -torch.inf
        n = (~hidden).sum(-1, keepdim=True).clamp(min=2).to(scores.dtype)  # log 1 = 0 has no power
        beta, gamma = self.beta.to(scores.dtype), self.gamma.to(scores.dtype)
        if self.heads > 1:
            beta, gamma = beta.view(-1, 1, 1), gamma.view(-1, 1, 1)
        finite = scores.masked_fill(hidden, 0.0)  # or β and γ had a gradient of 0 · −inf, which is no number
        scaled = finite * (self.delta + beta * n.log() ** gamma)
        return self.map(scaled.masked_fill(hidden, -torch.inf))

    def extra_repr(self) -> str:
        return f"{self.facts.name}, heads={self.heads}, delta={self.delta}"


def scalable_softmax(heads: int = 1) -> Scalable:
    """Softmax of scores times β log n, β learned for each head."""
    return Scalable(softmax, heads, delta=0.0, learn_gamma=False)


def scalable_entmax(heads: int = 1) -> Scalable:
    """ASEntmax: 1.5-entmax of scores times 1 + β (log n)^γ, β and γ learned for each head."""
    return Scalable(entmax15, heads)
