"""Checks and the quadratic form shared by densities on the line and in the plane."""

import torch
from torch import Tensor

from regard.continuous.basis import Basis
from regard.core.errors import ShapeError
from regard.core.shapes import check_float, check_together, joined
from regard.kernels.common.operator import is_plain


def check_variance(mean: Tensor, variance: Tensor, name: str = "variance") -> None:
    """Require mean (...) and a variance (...) above 0. NaN is allowed and gives NaN."""
    check_float("mean", mean)
    check_float(name, variance)
    check_together(**{"mean": mean, name: variance})
    _broadcast(mean.shape, variance.shape, mean, name, variance)
    if is_plain(variance) and bool((variance <= 0).any()):
        worst = variance[variance <= 0].min().item()
        raise ValueError(f"{name} must be above 0; got {worst}. A model can predict its logarithm.")


def check_covariance(mean: Tensor, covariance: Tensor, name: str = "covariance") -> None:
    """Require mean (..., 2) and a symmetric positive definite (..., 2, 2). NaN is allowed."""
    check_float("mean", mean)
    check_float(name, covariance)
    check_together(**{"mean": mean, name: covariance})
    if mean.shape[-1:] != (2,) or covariance.shape[-2:] != (2, 2):
        raise ShapeError(
            f"mean must be (..., 2) and {name} (..., 2, 2); "
            f"got {tuple(mean.shape)} and {tuple(covariance.shape)}."
        )
    _broadcast(mean.shape[:-1], covariance.shape[:-2], mean, name, covariance)
    if not is_plain(covariance):
        return
    a, b, c, d = covariance.detach().flatten(-2).unbind(-1)
    uneven = (b - c).abs() > 1e-5 * (b.abs() + c.abs())
    indefinite = (a <= 0) | (d <= 0) | (a * d <= b * c)
    for flawed, wanted in ((uneven, "symmetric"), (indefinite, "positive definite")):
        if bool(flawed.any()):
            raise ValueError(
                f"{name} must be {wanted}; got {covariance[flawed][0].tolist()}. "
                "A model can predict a factor L with a positive diagonal: L @ L.mT."
            )


def _broadcast(one: torch.Size, other: torch.Size, mean: Tensor, name: str, variance: Tensor) -> None:
    try:
        joined(one, other)
    except RuntimeError:
        raise ShapeError(
            f"{name} must have the batch axes of mean {tuple(mean.shape)}; got {tuple(variance.shape)}."
        ) from None


def check_axes(basis: Basis, axes: int) -> None:
    """Require a basis on the line (1) or in the plane (2)."""
    if basis.axes != axes:
        where = {1: "on the line: widths (..., 1)", 2: "in the plane: widths (..., 2)"}[axes]
        raise ShapeError(f"basis must be {where}; got {tuple(basis.width.shape)}.")


def determinant(matrix: Tensor) -> Tensor:
    """|A| (...) of symmetric matrices (..., 2, 2)."""
    return matrix[..., 0, 0] * matrix[..., 1, 1] - matrix[..., 0, 1].square()


def form(matrix: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """dᵀA⁻¹d (...) of symmetric matrices (..., 2, 2) and d = (down, across), (...) each."""
    top, side, low = matrix[..., 0, 0], matrix[..., 0, 1], matrix[..., 1, 1]
    return (low * down.square() - 2 * side * down * across + top * across.square()) / determinant(matrix)
