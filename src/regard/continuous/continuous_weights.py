"""Weights of values at positions under a given density."""

from math import isfinite, prod
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from regard.continuous.basis import Basis, check_number
from regard.continuous.ridge_operator import weights_of
from regard.core.errors import DtypeError, ShapeError
from regard.core.shapes import check, joined


class Density(Protocol):
    """A density on the line or in the plane: anything that can compute E_p[ψ]."""

    axes: ClassVar[int]  # 1 or 2

    @property
    def mean(self) -> Tensor: ...

    def expect(self, basis: Basis) -> Tensor:
        """E_p[ψ] (..., N), or (..., N²) in the plane."""
        ...


def check_shape(shape: tuple[int, int]) -> tuple[int, int]:
    """Require the height and width of a plane of cells."""
    if (
        not isinstance(shape, tuple | list)
        or len(shape) != 2
        or any(isinstance(s, bool) or not isinstance(s, int) or s < 0 for s in shape)
    ):
        raise ShapeError(f"shape must be (h, w), two whole numbers of at least 0; got {shape}.")
    return shape[0], shape[1]


def check_ridge(ridge: float) -> float:
    """Require a ridge penalty above 0."""
    if not (ridge > 0 and isfinite(ridge)):
        raise ValueError(f"ridge must be above 0 and finite; got {ridge}. A small one is 1e-4.")
    return float(ridge)


def spacing(visible: Tensor, shape: tuple[int, int] | None) -> Tensor:
    """The distance between positions: (..., 1) on the line of visible keys (..., n), (2,) in a plane."""
    if shape is not None:
        return 1 / torch.tensor(shape, dtype=torch.float64, device=visible.device).clamp(min=1)
    return 1 / visible.sum(-1, keepdim=True).clamp(min=1).double()


def continuous_weights(
    density: Density,
    size: int | tuple[int, int],
    *,
    basis: int | None = None,
    ridge: float = 0.1,
    mask: Tensor | None = None,
) -> Tensor:
    """Weights (..., n) of a density (...): its context is z = weights @ values, for values (..., n, d_v).

    `size` is the number of values n, or the shape (h, w) of an image with n = h·w; `mask` (..., n) is True
    for values that may be attended to.
    """
    shape = None if isinstance(size, int) else check_shape(size)
    n = size if isinstance(size, int) else prod(size)
    if n < 0:
        raise ShapeError(f"size must be at least 0; got {size}.")
    if density.axes != (1 if shape is None else 2):
        wanted = {1: "the number of values, for a density on the line", 2: "(h, w), for one in the plane"}
        raise ShapeError(f"size must be {wanted[density.axes]}; got {size}.")
    number, ridge = check_number(basis, density.axes), check_ridge(ridge)
    mean = density.mean
    batch = mean.shape if shape is None else mean.shape[:-1]
    if mask is None:
        mask = torch.ones(n, dtype=torch.bool, device=mean.device)
    if mask.dtype != torch.bool:
        raise DtypeError(
            f"mask must be boolean, True = may be attended to; got {mask.dtype}. Use mask.bool()."
        )
    check("mask", mask, "... n", n=n)
    try:
        joined(batch, mask.shape[:-1])
    except RuntimeError:
        raise ShapeError(
            f"mask must be (..., n) with the axes of the density, {tuple(batch)}; got {tuple(mask.shape)}."
        ) from None
    r = density.expect(Basis.even(number, spacing(mask, shape)))
    return weights_of(r, mask, number, ridge, shape).to(mean.dtype)
