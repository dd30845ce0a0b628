"""What continuous softmax and sparsemax share: scores → mean and variance → density → weights.

    p = softmax(θ),   μ = Σⱼ pⱼtⱼ,   σ² = Σⱼ pⱼ(tⱼ − μ)² + 1/12L²

The density has the mean and the variance of the discrete softmax over the positions tⱼ of the L visible keys,
each being a cell of width 1/L: that is the 1/12L², and the variance is never 0. In a plane of h × w cells,
1/12h² and 1/12w² are added to the two variances, nothing to the covariance.

Keys are on a line from 0 to 1; those at −inf are taken out and the others close up. With shape = (h, w) they
are the n = h·w cells of an image, row by row; those at −inf are left out of the fit, the others keep their
place. The computation is in float64.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.continuous import Basis, Density
from regard.continuous.basis import check_number
from regard.continuous.continuous_weights import check_ridge, check_shape, spacing
from regard.continuous.ridge_operator import weights_of
from regard.core.errors import ShapeError
from regard.core.shapes import check, check_float, widened
from regard.maps.softmax import softmax
from regard.maps.table import MAPS, Map, register

Shape = tuple[int, int] | None
Kinds = tuple[
    Callable[[Tensor, Tensor], Density], Callable[[Tensor, Tensor], Density]
]  # on a line, in a plane


def line_moments(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (...) of the softmax of scores (..., n), over the places of the visible keys."""
    visible = scores != -torch.inf
    gap = spacing(visible, None)  # (..., 1)
    t = visible.cumsum(-1, dtype=torch.float64) * gap - (1 + gap) / 2  # (..., n), from −½ to ½
    part = softmax(scores) * t
    mean = part.sum(-1)
    variance = (part * t).sum(-1) - mean.square() + gap.squeeze(-1).square() / 12
    return mean + 0.5, variance


def plane_moments(scores: Tensor, shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Mean (..., 2) and covariance (..., 2, 2) of the softmax of scores (..., h·w), over the cells."""
    p = softmax(scores).unflatten(-1, shape)  # (..., h, w)
    gap = spacing(scores, shape)  # (2,)
    down, across = (
        (torch.arange(size, dtype=p.dtype, device=p.device) + 0.5) / max(size, 1) for size in shape
    )
    by_row, by_column = p.sum(-1), p.sum(-2)  # (..., h), (..., w)
    mean = torch.stack([(by_row * down).sum(-1), (by_column * across).sum(-1)], -1)
    y, x = down - mean[..., :1], across - mean[..., 1:]  # (..., h), (..., w)
    yy, xx = (by_row * y.square()).sum(-1), (by_column * x.square()).sum(-1)
    yx = ((p * x.unsqueeze(-2)).sum(-1) * y).sum(-1)
    covariance = torch.stack([yy, yx, yx, xx], -1).unflatten(-1, (2, 2))
    return mean, covariance + torch.diag(gap.square() / 12)


def moments(scores: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
    """Mean and variance of scores (..., n) on the line, or of n = h·w of them in a plane, in float64."""
    check_float("scores", scores)
    check("scores", scores, "... n")
    if shape is None:
        return line_moments(scores.double())
    height, width = check_shape(shape)
    if scores.shape[-1] != height * width:
        raise ShapeError(
            f"scores must be (..., n) with n = h·w = {height * width} for shape={shape}; "
            f"got {tuple(scores.shape)}."
        )
    return plane_moments(scores.double(), (height, width))


class Continuous(nn.Module):
    """A continuous map with its settings kept: functions per axis, ridge penalty, shape of the image."""

    facts: Map
    kinds: Kinds

    @classmethod
    def function(cls, name: str) -> Callable[..., Tensor]:
        """Enter into MAPS the function with densities of these kinds; it has the settings of the class."""

        def map(
            scores: Tensor, *, basis: int | None = None, ridge: float = 0.1, shape: Shape = None
        ) -> Tensor:
            """Map scores (..., n) to weights (..., n): Gᵀ E_p[ψ] of their density.

            `basis` is the number of functions along each axis (32 on the line, 10 in an image), `ridge` the
            penalty λ of the fit, `shape` the (h, w) of an image.
            """
            density = cls.kinds[shape is not None](*moments(scores, shape))
            number, ridge = check_number(basis, 1 if shape is None else 2), check_ridge(ridge)
            visible = scores != -torch.inf
            r = density.expect(Basis.even(number, spacing(visible, shape)))
            return weights_of(r, visible, number, ridge, shape).to(scores.dtype)

        map.__name__ = map.__qualname__ = name
        map.__module__ = cls.__module__
        entered = register(simplex=False, ordered=False, neighbours=True, guard=False)(map)
        cls.facts = MAPS[name]
        return entered

    def __init__(
        self, *, basis: int | None = None, ridge: float = 0.1, shape: tuple[int, int] | None = None
    ) -> None:
        super().__init__()
        self.shape = None if shape is None else check_shape(shape)
        self.basis = check_number(basis, 1 if shape is None else 2)
        self.ridge = check_ridge(ridge)

    def forward(self, scores: Tensor) -> Tensor:
        """Map scores (..., n) to weights (..., n)."""
        return self.facts(scores, basis=self.basis, ridge=self.ridge, shape=self.shape)

    def density(self, scores: Tensor) -> Density:
        """The density (...) of scores (..., n)."""
        mean, variance = moments(scores, self.shape)
        dtype = widened(scores).dtype
        return self.kinds[self.shape is not None](mean.to(dtype), variance.to(dtype))

    def extra_repr(self) -> str:
        settings = f"basis={self.basis}, ridge={self.ridge}"
        return settings if self.shape is None else f"{settings}, shape={self.shape}"
