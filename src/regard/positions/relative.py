"""Relative positions: the query is also scored against a learned vector per distance to the key.

    θᵢⱼ += qᵢᵀ a_{clip(j−i, ±r)} / √d

Shaw, Uszkoreit & Vaswani (2018), "Self-Attention with Relative Position Representations", arXiv:1803.02155,
Eq. 4, 5 (the vectors aᴷ; the optional aⱽ, added to the values, is left out).
"""

import torch
from torch import Tensor, nn

from regard.core.place import Place
from regard.core.shapes import check


def offsets(place: Place, reach: int) -> Tensor:
    """clip(j − i, ±reach) + reach for every pair: (..., m, n), from 0 to 2 reach."""
    return (place.keys.unsqueeze(-2) - place.queries.unsqueeze(-1)).clamp(-reach, reach) + reach


class Relative(nn.Module):
    """A term: one learned vector of the query's width per distance, clipped at ±reach."""

    def __init__(self, d_q: int, reach: int):
        super().__init__()
        self.d_q, self.reach = d_q, reach
        self.a = nn.Parameter(torch.randn(2 * reach + 1, d_q) * d_q**-0.5)

    def forward(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """(..., m, n) for query (..., m, d_q)."""
        check("query", query, "... m d_q", d_q=self.d_q)
        each: Tensor = query @ self.a.to(query.dtype).mT * self.d_q**-0.5  # (..., m, 2 reach + 1)
        index = offsets(place, self.reach)
        return each.gather(-1, index.expand(*each.shape[:-1], index.shape[-1]))
