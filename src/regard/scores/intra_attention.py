"""The score of intra-attention: a past state against the present input and what was attended to last.

    θᵢ = vᵀ tanh(W_h hᵢ + W_x x_t + W_h̃ h̃_{t−1})          query q = [x_t; h̃_{t−1}], key kᵢ = hᵢ

Cheng, Dong & Lapata (2016), "Long Short-Term Memory-Networks for Machine Reading", arXiv:1601.06733, §3.1,
Eq. 4.
"""

import torch
from torch import Tensor, nn

from regard.scores.score import Score, check_widths, linear, pairs, register


@register(learned=True, any_widths=True)
class IntraAttention(Score):
    """The additive score of a key, an input and the last context; the query holds the latter two."""

    def __init__(self, d_q: int, d_k: int, d: int | None = None, *, last: int | None = None):
        super().__init__()
        last = d_q // 2 if last is None else last  # width of h̃, at the end of the query
        self.d_q, self.d_k, self.last, d = d_q, d_k, last, d or d_k
        self.W_h = nn.Linear(d_k, d, bias=False)
        self.W_x = nn.Linear(d_q - last, d, bias=False)
        self.W_last = nn.Linear(last, d, bias=False)
        self.v = nn.Linear(d, 1, bias=False)
        self.per_pair = 2 * d

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Score query (..., m, d_q) against keys (..., n, d_k): (..., m, n)."""
        check_widths(query, keys, self.d_q, self.d_k)
        x, last = query.split([self.d_q - self.last, self.last], -1)
        asked = linear(x, self.W_x) + linear(last, self.W_last)
        return linear(torch.tanh(pairs(asked, linear(keys, self.W_h))), self.v).squeeze(-1)
