"""Relative positions: the query is also scored against a learned vector per distance to the key.

    θᵢⱼ += qᵢᵀ aᴷ_{clip(j−i, ±r)} / √d

Shaw, Uszkoreit & Vaswani (2018), "Self-Attention with Relative Position Representations", arXiv:1803.02155,
Eq. 4, 5. Their aⱽ, added to the values, is `RelativeValues`.
"""

import torch
from torch import Tensor, nn

from regard.core.shapes import check
from regard.positions.by_distance import DistanceTerm


class Relative(DistanceTerm):
    """A term: one learned vector of the query's width per distance, clipped at ±reach."""

    def __init__(self, d_q: int, reach: int):
        super().__init__()
        self.d_q, self.reach = d_q, reach
        self.a = nn.Parameter(torch.randn(2 * reach + 1, d_q) * d_q**-0.5)

    def span(self, lo: int, hi: int) -> tuple[int, int]:
        return -self.reach, self.reach

    def table(self, query: Tensor, distances: Tensor) -> Tensor:
        """(..., m, 2 reach + 1) for query (..., m, d_q)."""
        check("query", query, "... m d_q", d_q=self.d_q)
        table: Tensor = query @ self.a.to(query.dtype).mT * self.d_q**-0.5
        return table
