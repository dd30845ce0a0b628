"""Additive score: a one-layer network compares the query with each key.

    θⱼ = vᵀ tanh(W₁kⱼ + W₂q + Σ_t W_t f_t)

f_t are the features of terms, if any: position, Markov and fertility biases are inside the tanh (Cohn et
al. 2016, arXiv:1601.01085, §4). One lecture prints the score without vᵀ, which leaves a vector where a number
is needed.

Bahdanau, Cho & Bengio (2015), arXiv:1409.0473, §A.1.2 (there: e_ij = vᵀ tanh(W s_{i−1} + U h_j)).
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.core.place import Place
from regard.scores.score import FeatureTerm, Inside, Score, check_widths, linear, pairs, register


@register(learned=True, any_widths=True)
class Additive(Score):
    """The additive score with a hidden layer of width d."""

    uses_place = True
    broadcasts = True

    def __init__(self, d_q: int, d_k: int, d: int | None = None, *, terms: Sequence[FeatureTerm] = ()):
        super().__init__()
        self.d_q, self.d_k, d = d_q, d_k, d or d_k
        self.W1 = nn.Linear(d_k, d, bias=False)
        self.W2 = nn.Linear(d_q, d, bias=False)
        self.v = nn.Linear(d, 1, bias=False)
        self.inside = Inside(list(terms), d) if terms else None
        self.per_pair = 2 * d

    def forward(self, query: Tensor, keys: Tensor, place: Place | None = None) -> Tensor:
        """Score query (..., m, d_q) against keys (..., n, d_k): (..., m, n)."""
        check_widths(query, keys, self.d_q, self.d_k)
        hidden = pairs(linear(query, self.W2), linear(keys, self.W1))  # (..., m, n, d)
        if self.inside is not None:
            place = place or Place.default(query.shape[-2], keys.shape[-2], query.device)
            hidden = hidden + self.inside(query, keys, place)
        return linear(torch.tanh(hidden), self.v).squeeze(-1)
