"""Distance bias: one learned number per head and distance between query and key.

    θᵢⱼ += b_{clip(j−i, ±r)}

Raffel et al. (2020), arXiv:1910.10683, §2.1 (there the distances share buckets of growing size).
"""

import torch
from torch import Tensor, nn

from regard.core.place import Place
from regard.positions.relative import offsets


class Distance(nn.Module):
    """A term: learned biases (heads, 2 reach + 1), clipped at ±reach; heads=1 works for any shape."""

    def __init__(self, reach: int, heads: int = 1):
        super().__init__()
        self.reach, self.heads = reach, heads
        self.b = nn.Parameter(torch.zeros(heads, 2 * reach + 1))

    def forward(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """(heads, m, n), or (m, n) for one head."""
        index = offsets(place, self.reach)  # (..., m, n)
        b = self.b.to(query.dtype)
        if self.heads == 1:
            return b[0][index]
        if index.dim() > 2:  # positions per sequence, (b, 1, m, n): the heads are the axis before m
            return b[torch.arange(self.heads, device=index.device)[:, None, None], index]
        return b[:, index]
