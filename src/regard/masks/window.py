"""Window mask: a query looks at most k places away.

Positions are aligned at the end, as in `Causal`: query i of m stands at n − m + i.
"""

import torch
from torch import Tensor

from regard.masks.mask import Mask


class Window(Mask):
    """Query i of m sees keys j with |j − (n − m + i)| ≤ k."""

    def __init__(self, k: int):
        if not isinstance(k, int) or isinstance(k, bool):
            raise TypeError(f"k must be a whole number, how far a query sees; got {type(k).__name__}.")
        if k < 0:
            raise ValueError(f"k must be at least 0 (a query sees its own place); got {k}.")
        self.k = k

    def interval(self, m: int, n: int, axes: int, device: torch.device) -> tuple[Tensor, Tensor]:
        i = torch.arange(n - m, n, device=device)  # (m,)
        return (i - self.k).clamp_(min=0), (i + self.k + 1).clamp_(0, n)

    def span(self, start: int, stop: int, m: int, n: int) -> tuple[int, int]:
        first = min(max(0, n - m + start - self.k), n)
        return first, min(max(first, n - m + stop + self.k), n)

    def offsets(self, n: int) -> tuple[int, int] | None:
        return -self.k, self.k

    def __repr__(self) -> str:
        return f"Window({self.k})"
