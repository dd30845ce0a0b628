"""Gaussian densities: continuous softmax, the maximum-entropy density of a quadratic score.

    p(t) = N(t; μ, σ²) ∝ exp(−(t − μ)²/2σ²)                on the line
    p(t) = N(t; μ, Σ)  ∝ exp(−½(t − μ)ᵀΣ⁻¹(t − μ))         in the plane
    E_p[ψ] = |S|^½ |S + Σ|^−½ exp(−½(c − μ)ᵀ(S + Σ)⁻¹(c − μ))      for ψ with centre c and S = diag(s²)

Martins et al. (2020), "Sparse and Continuous Attention Mechanisms", arXiv:2006.07214.
"""

from dataclasses import dataclass
from math import pi
from typing import ClassVar

import torch
from torch import Tensor

from regard.continuous.basis import Basis
from regard.continuous.density import check_axes, check_covariance, check_variance, determinant, form
from regard.continuous.smoothed import gauss


@dataclass(frozen=True, eq=False)
class Gaussian:
    """N(t; μ, σ²) on the line, of mean μ (...) and variance σ² (...) above 0."""

    axes: ClassVar[int] = 1
    mean: Tensor
    variance: Tensor

    def __post_init__(self) -> None:
        check_variance(self.mean, self.variance)

    @property
    def support(self) -> tuple[Tensor, Tensor]:
        """The ends of the interval where the density is above 0: the whole line."""
        return torch.full_like(self.mean, -torch.inf), torch.full_like(self.mean, torch.inf)

    def pdf(self, t: Tensor) -> Tensor:
        """p (..., k) at points t (..., k)."""
        variance = self.variance.unsqueeze(-1)
        return (-(t - self.mean.unsqueeze(-1)).square() / (2 * variance)).exp() / (2 * pi * variance).sqrt()

    def expect(self, basis: Basis) -> Tensor:
        """E_p[ψ] (..., N), computed in float64."""
        check_axes(basis, 1)
        mean, variance, basis = self.mean.double(), self.variance.double(), basis.double()
        share = (1 + variance / basis.width[..., 0].square()).rsqrt().unsqueeze(-1)  # s/√(s² + σ²)
        return (share * gauss(basis.along(0, mean) * share)).to(self.mean.dtype)


@dataclass(frozen=True, eq=False)
class Gaussian2D:
    """N(t; μ, Σ) in the plane, of mean μ (..., 2) and positive definite covariance Σ (..., 2, 2)."""

    axes: ClassVar[int] = 2
    mean: Tensor
    covariance: Tensor

    def __post_init__(self) -> None:
        check_covariance(self.mean, self.covariance)

    @property
    def variance(self) -> Tensor:
        """The variance along each axis, (..., 2)."""
        return self.covariance.diagonal(dim1=-2, dim2=-1)

    @property
    def support(self) -> Tensor:
        """E (..., 2, 2) of the ellipse (t − μ)ᵀE⁻¹(t − μ) < 1 where the density is above 0: everywhere."""
        return torch.diag_embed(torch.full_like(self.mean, torch.inf))

    def pdf(self, t: Tensor) -> Tensor:
        """p (..., k) at points t (..., k, 2)."""
        down, across = (t - self.mean.unsqueeze(-2)).unbind(-1)
        q = form(self.covariance.unsqueeze(-3), down, across)
        return (-q / 2).exp() / (2 * pi * determinant(self.covariance).sqrt().unsqueeze(-1))

    def expect(self, basis: Basis) -> Tensor:
        """E_p[ψ] (..., N²), computed in float64."""
        check_axes(basis, 2)
        mean, covariance, basis = self.mean.double(), self.covariance.double(), basis.double()
        wider = torch.eye(2, dtype=mean.dtype, device=mean.device)
        wider = wider + covariance / (basis.width.unsqueeze(-1) * basis.width.unsqueeze(-2))  # (..., 2, 2)
        down, across = (basis.along(axis, mean[..., axis]) for axis in (0, 1))  # (..., N) each
        q = form(wider[..., None, None, :, :], down.unsqueeze(-1), across.unsqueeze(-2))  # (..., N, N)
        r = (q / -2).exp() * determinant(wider).rsqrt()[..., None, None]
        return r.flatten(-2).to(self.mean.dtype)
