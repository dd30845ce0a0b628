"""Local attention: a query attends to a window of keys around one position p.

    |j − p| ≤ D          and, where p is predicted, weights times exp(−(j − p)² / 2σ²), σ = D/2

The Gaussian is applied after the map, without normalising again, so the weights sum to less than 1. p gets
its gradient through the Gaussian, not through the window.

Luong, Pham & Manning (2015), arXiv:1508.04025, §3.2, Eq. 9, 10.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.masks import Mask


class LocalMask(Mask):
    """Query i sees the keys at most `reach` away from centres[i]; centres (..., m) need not be whole."""

    def __init__(self, centres: Tensor, reach: float):
        self.centres, self.reach = centres.detach(), reach

    def rows(self, start: int, stop: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        return offsets(self.centres[..., start:stop], n).abs() <= self.reach

    def __repr__(self) -> str:
        return f"LocalMask{tuple(self.centres.shape)}"


class ScaledMap:
    """A map whose weights (..., m, n) are multiplied by a tensor of that shape."""

    acts_on = "matrix"  # each row has its own factors

    def __init__(self, map: Callable[..., Tensor], by: Tensor):
        self.map, self.by = map, by

    def __call__(self, scores: Tensor) -> Tensor:
        return self.map(scores) * self.by.to(scores.dtype)


def gaussian(centres: Tensor, n: int, reach: float) -> Tensor:
    """exp(−(j − p)² / 2σ²) for centres p (..., m) and n keys: (..., m, n)."""
    return torch.exp(-2 * (offsets(centres, n) / reach) ** 2)  # σ = reach / 2


def offsets(centres: Tensor, n: int) -> Tensor:
    """j − p: (..., m, n)."""
    return torch.arange(n, device=centres.device) - centres.unsqueeze(-1)
