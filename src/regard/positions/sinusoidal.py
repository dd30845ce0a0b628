"""Sinusoidal positions: sines and cosines of the position at several frequencies, added to the inputs.

    x_{t, 2i} = sin(t / 10000^{2i/d}),     x_{t, 2i+1} = cos(t / 10000^{2i/d})

Sine and cosine of a pair have the same frequency: moving by k positions rotates every pair by a fixed angle,
so x_{t+k} is a linear function of x_t. (One lecture prints 2i + 1 in the exponent of the cosine; under its
formula this does not hold.) Wavelengths go from 2π to 2π · 10000^{(d−2)/d}.

Vaswani et al. (2017), arXiv:1706.03762, §3.5.
"""

import torch
from torch import Tensor, nn


def sinusoid(positions: Tensor, width: int) -> Tensor:
    """Positions (...) to their encodings (..., width), in float64."""
    i = torch.arange((width + 1) // 2, dtype=torch.float64, device=positions.device)
    angles = positions.to(torch.float64).unsqueeze(-1) * 10000.0 ** (-2 * i / width)  # (..., width / 2)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[..., :width]


class Sinusoidal(nn.Module):
    """The encodings of positions start to start + n, from a table that is extended on demand."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self.table = torch.empty(
            0, width
        )  # not a buffer: computed in float64 and cast to the requested dtype

    def forward(self, n: int, start: int = 0, *, like: Tensor) -> Tensor:
        """(n, width), of the dtype and on the device of `like`."""
        table = self.table
        if start + n > len(table) or table.dtype != like.dtype or table.device != like.device:
            table = sinusoid(torch.arange(max(start + n, 2 * len(table))), self.width).to(like)
            self.table = table
        return table[start : start + n]

    def extra_repr(self) -> str:
        return f"width={self.width}"
