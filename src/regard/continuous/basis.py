"""Radial basis functions: Gaussians on a regular grid, in which values are expressed as functions.

    ψⱼ(t) = exp(−½ Σ_d (t_d − cⱼ_d)² / s_d²)

On the line there are N of them, with centres c evenly spaced from 0 to 1. In the plane there are N², the
products of those of each axis. The width s is the distance between centres, or between the given positions if
that is larger, so that there are no gaps between few positions.

Martins et al. (2020), "Sparse and Continuous Attention Mechanisms", arXiv:2006.07214, whose functions are
these times a constant.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.errors import ShapeError
from regard.core.shapes import check, check_float
from regard.kernels.common.operator import is_plain

NUMBER = {1: 32, 2: 10}  # functions along each axis, on the line and in the plane


def check_number(number: int | None, axes: int) -> int:
    """The number of functions along each axis; None is the default."""
    if number is None:
        return NUMBER[axes]
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(
            f"basis must be a number of functions per axis, a whole number of at least 1; got {number}."
        )
    return number


@dataclass(frozen=True, eq=False)
class Basis:
    """N Gaussians along each of D = 1 or 2 axes, of widths (..., D); `even` chooses the widths."""

    number: int
    width: Tensor

    def __post_init__(self) -> None:
        check_number(self.number, 1)
        check_float("width", self.width)
        check("width", self.width, "... D")
        if self.axes not in (1, 2):
            raise ShapeError(f"width must be (..., 1) or (..., 2); got {tuple(self.width.shape)}.")
        if is_plain(self.width) and bool((self.width < (1 - 1e-6) * self.gap).any()):
            raise ValueError(
                f"width must be at least the distance between centres, {self.gap:.3g}; "
                f"got {self.width.min().item():.3g}. Use more functions."
            )

    @staticmethod
    def even(number: int, spacing: Tensor) -> "Basis":
        """N functions per axis for positions that are spacing (..., D) apart."""
        return Basis(number, spacing.clamp(min=1 / max(number - 1, 1)))

    @property
    def axes(self) -> int:
        """1 on the line, 2 in the plane."""
        return self.width.shape[-1]

    @property
    def gap(self) -> float:
        """The distance between centres."""
        return 1 / max(self.number - 1, 1)

    @property
    def centres(self) -> Tensor:
        """The centres along each axis, (N,): evenly from 0 to 1, or ½ if there is one."""
        steps = torch.arange(self.number, dtype=self.width.dtype, device=self.width.device)
        return steps * self.gap if self.number > 1 else steps + 0.5

    def double(self) -> "Basis":
        """The same in float64."""
        return Basis(self.number, self.width.double())

    def along(self, axis: int, t: Tensor) -> Tensor:
        """The distance of coordinates t (...) from each centre, in widths: (..., N)."""
        return (self.centres - t.unsqueeze(-1)) / self.width[..., axis, None]

    def __call__(self, t: Tensor) -> Tensor:
        """ψ (..., k, N) at points t (..., k) of the line, or (..., k, N²) at points t (..., k, 2)."""
        each = Basis(self.number, self.width.unsqueeze(-2))  # (..., 1, D)
        if self.axes == 1:
            bells: Tensor = (each.along(0, t).square() / -2).exp()
            return bells
        down, across = (each.along(axis, t[..., axis]) for axis in (0, 1))  # (..., k, N)
        squares = down.square().unsqueeze(-1) + across.square().unsqueeze(-2)
        return (squares / -2).exp().flatten(-2)
