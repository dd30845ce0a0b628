"""Transitions and rows of every kind, for tests of chains of two states."""

import torch

from maps.map_settings import ATTRACT, NEITHER, REPEL, wide

KINDS = {
    "attract": ATTRACT,
    "repel": REPEL,
    "neither": wide(NEITHER),
    "strong": 20 * ATTRACT,
    "wild": 20 * REPEL,
}


def rows(n, dtype=torch.float64):
    """Rows of every kind: noise of three scales, ties, smooth, sorted, constant."""
    g = torch.Generator().manual_seed(n)
    noise = torch.randn(n, generator=g, dtype=torch.float64)
    t = torch.linspace(-1, 2, n, dtype=torch.float64)
    return torch.stack(
        [noise / 5, noise, 9 * noise, noise.round(), t, (9 * t).sin(), noise.sort().values, 0 * t]
    ).to(dtype)
