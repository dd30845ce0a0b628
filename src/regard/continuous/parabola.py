"""Truncated parabolas: continuous sparsemax, whose density is exactly 0 outside an interval or an ellipse.

    p(t) = [−τ − (t − μ)²/2σ²]₊                on the line
    p(t) = [−τ − ½(t − μ)ᵀΣ⁻¹(t − μ)]₊         in the plane, with τ such that ∫p = 1

σ² and Σ are the scale of the score, not the variance of the density. In terms of its variance v or covariance
C,

    p(t) = 3/(4√(5v)) [1 − (t − μ)²/5v]₊                    v = (3σ²/2)^⅔ / 5,       −τ = 3/(4√(5v))
    p(t) = 1/(3π√|C|) [1 − (t − μ)ᵀC⁻¹(t − μ)/6]₊           C = |Σ|^−¼ Σ / 3√π,      −τ = 1/(3π√|C|)

E_p[ψ] has a closed form on the line. In the plane it has one along one axis; for the other axis, the
trapezoid rule over the angle of the ellipse converges faster than any power of the number of angles.

Martins et al. (2020), "Sparse and Continuous Attention Mechanisms", arXiv:2006.07214.
"""

from dataclasses import dataclass
from math import pi
from typing import ClassVar

from torch import Tensor

from regard.continuous.basis import Basis
from regard.continuous.density import check_axes, check_covariance, check_variance, determinant, form
from regard.continuous.smoothed import across_ellipse, smoothed


@dataclass(frozen=True, eq=False)
class TruncatedParabola:
    """The density on the line of mean μ (...) and variance v (...) above 0; not the paper's σ²."""

    axes: ClassVar[int] = 1
    mean: Tensor
    variance: Tensor

    def __post_init__(self) -> None:
        check_variance(self.mean, self.variance)

    @staticmethod
    def of_score(mean: Tensor, scale: Tensor) -> "TruncatedParabola":
        """[−τ − (t − μ)²/2σ²]₊ of mean μ (...) and scale σ² (...) above 0, as the paper has it."""
        check_variance(mean, scale, "scale")
        return TruncatedParabola(mean, (1.5 * scale) ** (2 / 3) / 5)

    @property
    def radius(self) -> Tensor:
        """Half the length of the support, (...)."""
        return (5 * self.variance).sqrt()

    @property
    def support(self) -> tuple[Tensor, Tensor]:
        """The ends of the interval where the density is above 0, (...) each."""
        return self.mean - self.radius, self.mean + self.radius

    def pdf(self, t: Tensor) -> Tensor:
        """p (..., k) at points t (..., k)."""
        radius = self.radius.unsqueeze(-1)
        return 0.75 / radius * (1 - ((t - self.mean.unsqueeze(-1)) / radius).square()).clamp(min=0)

    def expect(self, basis: Basis) -> Tensor:
        """E_p[ψ] (..., N), computed in float64."""
        check_axes(basis, 1)
        basis = basis.double()
        kappa = ((5 * self.variance.double()).sqrt() / basis.width[..., 0]).unsqueeze(-1)  # (..., 1)
        return smoothed(kappa, basis.along(0, self.mean.double())).to(self.mean.dtype)


@dataclass(frozen=True, eq=False)
class TruncatedParaboloid:
    """The density in the plane of mean μ (..., 2) and covariance C (..., 2, 2); not the paper's Σ."""

    axes: ClassVar[int] = 2
    mean: Tensor
    covariance: Tensor

    def __post_init__(self) -> None:
        check_covariance(self.mean, self.covariance)

    @staticmethod
    def of_score(mean: Tensor, scale: Tensor) -> "TruncatedParaboloid":
        """[−τ − ½(t − μ)ᵀΣ⁻¹(t − μ)]₊ of mean μ (..., 2) and scale Σ (..., 2, 2), as the paper has it."""
        check_covariance(mean, scale, "scale")
        return TruncatedParaboloid(mean, scale * determinant(scale)[..., None, None] ** -0.25 / (3 * pi**0.5))

    @property
    def variance(self) -> Tensor:
        """The variance along each axis, (..., 2)."""
        return self.covariance.diagonal(dim1=-2, dim2=-1)

    @property
    def support(self) -> Tensor:
        """E (..., 2, 2) of the ellipse (t − μ)ᵀE⁻¹(t − μ) < 1 where the density is above 0."""
        return 6 * self.covariance

    def pdf(self, t: Tensor) -> Tensor:
        """p (..., k) at points t (..., k, 2)."""
        down, across = (t - self.mean.unsqueeze(-2)).unbind(-1)
        q = form(self.support.unsqueeze(-3), down, across)
        return (1 - q).clamp(min=0) / (3 * pi * determinant(self.covariance).sqrt().unsqueeze(-1))

    def expect(self, basis: Basis) -> Tensor:
        """E_p[ψ] (..., N²), computed in float64."""
        check_axes(basis, 2)
        mean, basis = self.mean.double(), basis.double()
        widths = basis.width.unsqueeze(-1) * basis.width.unsqueeze(-2)
        ellipse = 6 * self.covariance.double() / widths  # (..., 2, 2), in widths of the basis
        down, across = (basis.along(axis, mean[..., axis]) for axis in (0, 1))  # (..., N) each
        return across_ellipse(ellipse, down, across).flatten(-2).to(self.mean.dtype)
