"""Concat score: the additive score with one matrix applied to the concatenated vectors.

    θⱼ = vᵀ tanh(W[q; kⱼ])          W = [W₂ W₁]

The same function as `Additive`; it needs m × n matrix products where `Additive` needs m + n.

Luong, Pham & Manning (2015), arXiv:1508.04025, §3.1 ("concat").
"""

import torch
from torch import Tensor, nn

from regard.core.shapes import joined
from regard.scores.score import Score, check_widths, linear, register


@register(learned=True, any_widths=True)
class Concat(Score):
    """The concat score with a hidden layer of width d."""

    broadcasts = True

    def __init__(self, d_q: int, d_k: int, d: int | None = None):
        super().__init__()
        self.d_q, self.d_k, d = d_q, d_k, d or d_k
        self.W = nn.Linear(d_q + d_k, d, bias=False)
        self.v = nn.Linear(d, 1, bias=False)
        self.per_pair = d_q + d_k + 2 * d

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Score query (..., m, d_q) against keys (..., n, d_k): (..., m, n)."""
        check_widths(query, keys, self.d_q, self.d_k)
        batch = joined(query.shape[:-2], keys.shape[:-2])
        m, n = query.shape[-2], keys.shape[-2]
        q = query.unsqueeze(-2).expand(*batch, m, n, self.d_q)
        k = keys.unsqueeze(-3).expand(*batch, m, n, self.d_k)
        return linear(torch.tanh(linear(torch.cat([q, k], -1), self.W)), self.v).squeeze(-1)
