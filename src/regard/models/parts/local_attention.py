"""Local attention: a query looks at the keys around one place alone.

    |j − p| ≤ D          and, where p is predicted, weights times exp(−(j − p)² / 2σ²), σ = D/2

The Gaussian comes after the map and nothing is normalised again, so the weights sum to less than 1; through
it, not through the window, p is learned.

Luong, Pham & Manning (2015), arXiv:1508.04025, §3.2, Eq. 9, 10.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.masks import Mask


class Around(Mask):
    """Query i sees the keys at most `reach` away from centres[i]; centres (..., m) need not be whole."""

    def __init__(self, centres: Tensor, reach: float):
        self.centres, self.reach = centres.detach(), reach

    def rows(self, start: int, stop: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        return away(self.centres[..., start:stop], n).abs() <= self.reach

    def __repr__(self) -> str:
        return f"Around{tuple(self.centres.shape)}"


class Scaled:
    """A map whose weights (..., m, n) are then multiplied by numbers of this shape."""

    def __init__(self, map: Callable[..., Tensor], by: Tensor):
        self.map, self.by = map, by

    def __call__(self, scores: Tensor) -> Tensor:
        return self.map(scores) * self.by.to(scores.dtype)


def gaussian(centres: Tensor, n: int, reach: float) -> Tensor:
    """exp(−(j − p)² / 2σ²) for centres p (..., m) and n keys: (..., m, n)."""
    return torch.exp(-2 * (away(centres, n) / reach) ** 2)  # σ = reach / 2


def away(centres: Tensor, n: int) -> Tensor:
    """j − p: (..., m, n)."""
    return torch.arange(n, device=centres.device) - centres.unsqueeze(-1)
