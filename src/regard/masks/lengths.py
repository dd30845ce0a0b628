"""Lengths mask: the first l keys of each sequence are real, the rest is padding."""

import torch
from torch import Tensor

from regard.core.errors import DtypeError, ShapeError
from regard.masks.mask import Mask


class Lengths(Mask):
    """Every query sees keys j < l. Lengths (b,) belong to the first axis of the batch, (b, c) to two."""

    def __init__(self, lengths: Tensor):
        if lengths.is_floating_point() or lengths.dtype == torch.bool or lengths.is_complex():
            raise DtypeError(f"lengths must be whole numbers, one per sequence; got {lengths.dtype}.")
        self.l = lengths

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
