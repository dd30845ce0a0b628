"""Causal mask: no query attends past its own position.

Aligned at the end: query i of m sees keys up to n − m + i, so cached steps agree with whole sequences. (The
`is_causal` of `scaled_dot_product_attention` is aligned at the start; for m = n the two are the same.)

Vaswani et al. (2017), arXiv:1706.03762, §3.2.3.
"""

import torch
from torch import Tensor

from regard.masks.mask import Mask


class Causal(Mask):
    """Query i of m sees keys j ≤ n − m + i."""

    def interval(self, m: int, n: int, axes: int, device: torch.device) -> tuple[Tensor, Tensor]:
        hi = torch.arange(n - m + 1, n + 1, device=device).clamp_(min=0)  # (m,)
        return torch.zeros(1, dtype=hi.dtype, device=device), hi

    def seen(self, m: int, n: int, axes: int, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
        return (None, None) if 0 < m <= n else super().seen(m, n, axes, device)

    def span(self, start: int, stop: int, m: int, n: int) -> tuple[int, int]:
        return 0, max(0, n - m + stop)

    def offsets(self, n: int) -> tuple[int, int] | None:
        return -n, 0

    def __repr__(self) -> str:
        return "Causal()"
