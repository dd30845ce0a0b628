"""MLP score: a network of any depth compares the query with each key.

    h₁ = tanh(W₁kⱼ + W₂q + b₁ + Σ_t W_t f_t),   h_l = tanh(W_l h_{l−1} + b_l),   θⱼ = vᵀh_L

With one hidden layer and no bias it is the additive score. Terms are added inside the first tanh.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from regard.core.place import Place
from regard.scores.score import FeatureTerm, Inside, Score, check_widths, layers, linear, pairs, register


@register(learned=True, any_widths=True)
class MLP(Score):
    """The MLP score with hidden layers of these widths (default: two of d_k)."""

    uses_place = True
    broadcasts = True

    def __init__(
        self,
        d_q: int,
        d_k: int,
        widths: Sequence[int] | None = None,
        *,
        activation: Callable[[Tensor], Tensor] = torch.tanh,
        terms: Sequence[FeatureTerm] = (),
    ):
        super().__init__()
        widths = (d_k, d_k) if widths is None else tuple(widths)
        if not widths:
            raise ValueError(
                "widths must name at least one hidden layer; got none. For no hidden layer use bilinear."
            )
        self.d_q, self.d_k, self.activation = d_q, d_k, activation
        self.W1 = nn.Linear(d_k, widths[0])
        self.W2 = nn.Linear(d_q, widths[0], bias=False)
        self.inside = Inside(list(terms), widths[0]) if terms else None
        self.deeper = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.v = nn.Linear(widths[-1], 1, bias=False)
        self.per_pair = 2 * sum(widths)

    def forward(self, query: Tensor, keys: Tensor, place: Place | None = None) -> Tensor:
        """Score query (..., m, d_q) against keys (..., n, d_k): (..., m, n)."""
        check_widths(query, keys, self.d_q, self.d_k)
        hidden = pairs(linear(query, self.W2), linear(keys, self.W1))  # (..., m, n, widths[0])
        if self.inside is not None:
            place = place or Place.default(query.shape[-2], keys.shape[-2], query.device)
            hidden = hidden + self.inside(query, keys, place)
        hidden = self.activation(hidden)
        for layer in layers(self.deeper):
            hidden = self.activation(linear(hidden, layer))
        return linear(hidden, self.v).squeeze(-1)
