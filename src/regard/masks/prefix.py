"""Prefix mask: the first l keys are seen by all queries, the rest causally.

The mask of a prefix language model: a source is read in both directions, its continuation from left to
right. Aligned at the end, as `Causal` is.

Raffel et al. (2020), arXiv:1910.10683, §3.2.1.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.errors import DtypeError, ShapeError
from regard.masks.causal import Causal


class Prefix(Causal):
    """Query i of m sees keys j < l and j ≤ n − m + i. l is one number, or (b,): one for each sequence."""

    def __init__(self, l: int | Tensor):  # noqa: E741
        whole = isinstance(l, int) and not isinstance(l, bool)
        if isinstance(l, Tensor):
            if l.is_floating_point() or l.is_complex() or l.dtype == torch.bool:
                raise DtypeError(f"l must be whole numbers, one per sequence; got {l.dtype}.")
        elif not whole:
            raise TypeError(
                f"l must be a whole number or a tensor of them, one per sequence; got {type(l).__name__}."
            )
        elif l < 0:
            raise ValueError(f"l must be at least 0 keys that all queries see; got {l}.")
        self.l = l

    def check(self, batch: Sequence[int], m: int, n: int) -> None:
        if isinstance(self.l, Tensor) and any(
            a not in (1, b) for a, b in zip(self.l.shape, batch, strict=False)
        ):
            wanted = tuple(batch[: self.l.dim()])
            raise ShapeError(f"l must be one number per sequence, {wanted}; got {tuple(self.l.shape)}.")

    def interval(self, m: int, n: int, axes: int, device: torch.device) -> tuple[Tensor, Tensor]:
        lo, hi = super().interval(m, n, axes, device)
        if isinstance(self.l, int):
            return lo, hi.clamp(min=min(self.l, n))
        if self.l.dim() > axes:
            raise ShapeError(
                f"l {tuple(self.l.shape)} has {self.l.dim()} axes, but there are only {axes} before (m, n)."
            )
        l = self.l.to(device).clamp(0, n).reshape(*self.l.shape, *[1] * (axes - self.l.dim()), 1)  # noqa: E741
        return lo, torch.maximum(hi, l)

    def span(self, start: int, stop: int, m: int, n: int) -> tuple[int, int]:
        causal = super().span(start, stop, m, n)[1]
        return 0, n if isinstance(self.l, Tensor) else max(causal, min(self.l, n))

    def offsets(self, n: int) -> tuple[int, int] | None:
        return None

    def __repr__(self) -> str:
        return f"Prefix({self.l if isinstance(self.l, int) else tuple(self.l.shape)})"
