"""ALiBi: a penalty that grows with the distance, faster in some heads than in others.

    θᵢⱼ −= s_h |j − i|          s_h = 2^{−8h/H}, h = 1 … H

For H that is no power of two, the slopes are those of the next lower power and, for the rest, every other one
of its double. Without parameters, and for sequences longer than any in training. Under `Causal` it is the
paper's; without it, it is the same on both sides.

Press, Smith & Lewis (2022), "Train Short, Test Long", arXiv:2108.12409, §3.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.place import Place
from regard.positions.by_distance import DistanceTerm, distances


def slopes(heads: int) -> list[float]:
    """The slope of each head."""
    if heads < 1:
        raise ValueError(f"heads must be at least 1; got {heads}.")
    power = 1 << (heads.bit_length() - 1)  # the largest power of two that is not more
    first = [2.0 ** (-8 * h / power) for h in range(1, power + 1)]
    between = [2.0 ** (-4 * h / power) for h in range(1, 2 * power, 2)]
    return first + between[: heads - power]


class ALiBi(DistanceTerm):
    """A term: −slope · distance, a slope for each head; heads=1 works for any shape.

    With `given` the slopes are these: 0 for a head without positions.
    """

    def __init__(self, heads: int, given: Sequence[float] | None = None):
        super().__init__()
        self.heads, self.slopes = heads, slopes(heads) if given is None else [float(s) for s in given]
        if len(self.slopes) != heads:
            raise ValueError(f"there must be {heads} slopes, one for each head; got {len(self.slopes)}.")

    def span(self, lo: int, hi: int) -> tuple[int, int]:
        return lo, max(lo, hi)

    def table(self, query: Tensor, distances: Tensor) -> Tensor:
        """(heads, 1, L), or (1, L) for one head."""
        return self._penalty(query, distances.unsqueeze(-2))

    def forward(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """(..., heads, m, n), or (..., m, n) for one head."""
        return self._penalty(query, distances(place))

    def _penalty(self, query: Tensor, apart: Tensor) -> Tensor:
        slope = torch.tensor(self.slopes, dtype=query.dtype, device=query.device)
        return -(slope if self.heads == 1 else slope[:, None, None]) * apart.abs().to(query.dtype)

    def extra_repr(self) -> str:
        return f"heads={self.heads}"
