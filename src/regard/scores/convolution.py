"""Convolution score: the query is compared with a window of keys around each key.

    θⱼ = vᵀ tanh(Σ_o W_o k_{j+o} + W₂q)          o = −r … r

The lectures only name CNN(q, K); this form is ours: the additive score with a window of keys in place of one.
Masked keys count as 0, like the padding beyond both ends, so nothing masked leaks through a window.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.place import Place
from regard.scores.score import Score, check_widths, layers, linear, pairs, register


@register(learned=True, any_widths=True)
class Convolution(Score):
    """The convolution score over 2r + 1 keys with a hidden layer of width d."""

    uses_place = True
    broadcasts = True
    looks_around = True

    def __init__(self, d_q: int, d_k: int, d: int | None = None, *, reach: int = 1):
        super().__init__()
        if reach < 0:
            raise ValueError(f"reach must be at least 0; got {reach}.")
        self.d_q, self.d_k, self.reach, d = d_q, d_k, reach, d or d_k
        self.W = nn.ModuleList(nn.Linear(d_k, d, bias=False) for _ in range(2 * reach + 1))
        self.W2 = nn.Linear(d_q, d, bias=False)
        self.v = nn.Linear(d, 1, bias=False)
        self.per_pair = 4 * d

    def forward(self, query: Tensor, keys: Tensor, place: Place | None = None) -> Tensor:
        """Score query (..., m, d_q) against keys (..., n, d_k): (..., m, n)."""
        check_widths(query, keys, self.d_q, self.d_k)
        visible = None if place is None else place.visible  # (..., m or 1, n)
        each = [linear(keys, W) for W in layers(self.W)]  # (..., n, d) per offset
        if visible is None:
            windows = torch.stack([shifted(k, o - self.reach) for o, k in enumerate(each)])
            hidden = pairs(linear(query, self.W2), windows.sum(0))  # (..., m, n, d)
        else:
            hidden = linear(query, self.W2).unsqueeze(-2)  # (..., m, 1, d)
            for o, k in enumerate(each):
                there = shifted(visible.unsqueeze(-1), o - self.reach)  # (..., m or 1, n, 1)
                hidden = hidden + torch.where(there, shifted(k, o - self.reach).unsqueeze(-3), 0)
        return linear(torch.tanh(hidden), self.v).squeeze(-1)


def shifted(x: Tensor, by: int) -> Tensor:
    """x (..., n, d) shifted: position j holds what was at j + by, and 0 (False) beyond the ends."""
    n = x.shape[-2]
    by = max(-n, min(n, by))
    if by >= 0:
        return F.pad(x[..., by:, :], (0, 0, 0, by))
    return F.pad(x[..., :by, :], (0, 0, -by, 0))
