"""Window mask: a query looks at most k places away.

Positions are aligned at the end, as in `Causal`: query i of m stands at n − m + i.
"""

import torch
from torch import Tensor

from regard.masks.mask import Mask


class Window(Mask):
    """Query i of m sees keys j with |j − (n − m + i)| ≤ k."""

    def __init__(self, k: int):
        if k < 0:
            raise ValueError(f"k must be at least 0 (a query sees its own place); got {k}.")
        self.k = k

    def interval(self, m: int, n: int, axes: int, device: torch.device) -> tuple[Tensor, Tensor]:
        i = torch.arange(n - m, n, device=device)  # (m,)
        return (i - self.k).clamp_(min=0), (i + self.k + 1).clamp_(0, n)

    def __repr__(self) -> str:
        return f"Window({self.k})"
