"""Lengths mask: the first l keys of each sequence are real, the rest is padding."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.errors import DtypeError, ShapeError
from regard.kernels.common.operator import is_plain
from regard.masks.mask import Mask


class Lengths(Mask):
    """Every query sees keys j < l. Lengths (b,) belong to the first axis of the batch, (b, c) to two."""

    def __init__(self, lengths: Tensor):
        if not isinstance(lengths, Tensor):
            raise TypeError(
                f"lengths must be a tensor of whole numbers; got {type(lengths).__name__}. "
                "Use torch.tensor(lengths)."
            )
        if lengths.is_floating_point() or lengths.dtype == torch.bool or lengths.is_complex():
            raise DtypeError(f"lengths must be whole numbers, one per sequence; got {lengths.dtype}.")
        self.l = lengths
        self.longest: int | None = None  # the largest, once it was needed

    def check(self, batch: Sequence[int], m: int, n: int) -> None:
        if any(a not in (1, b) for a, b in zip(self.l.shape, batch, strict=False)):
            wanted = tuple(batch[: self.l.dim()])
            raise ShapeError(f"lengths must be one per sequence, {wanted}; got {tuple(self.l.shape)}.")
        if not is_plain(self.l):  # nobody can look, or it would take a while
            return
        if self.longest is None:
            self.longest = int(self.l.max()) if self.l.numel() else 0
        if self.longest > n:
            raise ValueError(f"lengths must be at most n={n}, the number of keys; got {self.longest}.")

    def interval(self, m: int, n: int, axes: int, device: torch.device) -> tuple[Tensor, Tensor]:
        if self.l.dim() > axes:
            raise ShapeError(
                f"lengths {tuple(self.l.shape)} have {self.l.dim()} axes, "
                f"but there are only {axes} before (m, n)."
            )
        hi = self.l.to(device).clamp(0, n).reshape(*self.l.shape, *[1] * (axes - self.l.dim()), 1)
        return torch.zeros(1, dtype=hi.dtype, device=device), hi

    def lengths(self) -> Tensor:
        return self.l

    def __repr__(self) -> str:
        return f"Lengths{tuple(self.l.shape)}"
