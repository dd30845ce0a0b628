"""Relative values: the context also holds a learned vector per distance, weighted as the keys at it are.

    zᵢ += Σⱼ pᵢⱼ aⱽ_{clip(j−i, ±r)} = Σ_{d=−r}^{r} wᵢ_d aⱽ_d

w_d is the weight of all keys at clipped distance d.

Computed from w, (..., m, 2r + 1). The flash and sparse backends need the weights of the keys near a block of
queries alone: to all that is farther away one of two vectors is added before it is weighted.

Shaw, Uszkoreit & Vaswani (2018), "Self-Attention with Relative Position Representations", arXiv:1803.02155,
Eq. 3 (their aᴷ is `Relative`).
"""

import torch
from torch import Tensor, nn

from regard.core.place import Place
from regard.positions.by_distance import distances


class RelativeValues(nn.Module):
    """One learned vector of the values' width per distance, clipped at ±reach: attend(value_term=…)."""

    def __init__(self, d_v: int, reach: int):
        super().__init__()
        if reach < 0:
            raise ValueError(f"reach must be at least 0; got {reach}.")
        self.d_v, self.reach = d_v, reach
        self.a = nn.Parameter(torch.randn(2 * reach + 1, d_v) * d_v**-0.5)

    def forward(self, weights: Tensor, place: Place) -> Tensor:
        """What is added to the context, (..., m, d_v), of weights (..., m, n)."""
        a = self.a.to(weights.dtype)
        by_distance: Tensor = per_distance(weights, place, self.reach) @ a
        return by_distance

    def extra_repr(self) -> str:
        return f"{self.d_v}, reach={self.reach}"


def per_distance(weights: Tensor, place: Place, reach: int) -> Tensor:
    """The weight at each clipped distance, (..., m, 2 reach + 1), of weights (..., m, n)."""
    index = distances(place).clamp(-reach, reach) + reach  # (..., m, n)
    found = weights.new_zeros(*weights.shape[:-1], 2 * reach + 1)
    return found.scatter_add(-1, index.expand(weights.shape), weights)
