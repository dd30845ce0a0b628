"""Distance bias: one learned number per head and distance between query and key.

    θᵢⱼ += b_{clip(j−i, ±r)}

Raffel et al. (2020), arXiv:1910.10683, §2.1 (there the distances share buckets of growing size: `T5Bias`).
"""

import torch
from torch import Tensor, nn

from regard.positions.by_distance import DistanceTerm


class Distance(DistanceTerm):
    """A term: learned biases (heads, 2 reach + 1), clipped at ±reach; heads=1 works for any shape."""

    def __init__(self, reach: int, heads: int = 1):
        super().__init__()
        self.reach, self.heads = reach, heads
        self.b = nn.Parameter(torch.zeros(heads, 2 * reach + 1))

    def span(self, lo: int, hi: int) -> tuple[int, int]:
        return -self.reach, self.reach

    def table(self, query: Tensor, distances: Tensor) -> Tensor:
        """(heads, 1, 2 reach + 1), or (1, 2 reach + 1) for one head."""
        b = self.b.to(query.dtype)
        return b if self.heads == 1 else b.unsqueeze(-2)
