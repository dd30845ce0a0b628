"""Integrals of truncated parabola and paraboloid times a Gaussian of width 1, for continuous sparsemax.

    F(κ, e) = ¾ ∫₋₁¹ (1 − z²) exp(−½(κz − e)²) dz = (3/4κ³) B(κ, e),
    B(κ, e) = (κ² − e² − 1) I + (κ + e) g(κ − e) + (κ − e) g(κ + e),
    I = √(π/2) (erfc((e − κ)/√2) − erfc((e + κ)/√2)),      g(x) = exp(−x²/2)

for e ≥ 0, and F(κ, −e) = F(κ, e). For a narrow density, κ < ¼, B cancels; there Gauss quadrature with six
points is exact up to rounding.

In the plane, an ellipse {Wy : |y| < 1} with W lower triangular is cut into lines of constant y₁ = sin φ:

    (2/π) ∫ (1 − |y|²) exp(−½|Wy − e|²) dy = (8/3π) ∫ cos⁴φ F(W₂₂ cos φ, e₂ − W₂₁ sin φ) g(W₁₁ sin φ − e₁) dφ

The integrand is analytic and periodic in φ, so equal steps of φ converge geometrically. The first axis is the
longer one, and only the part of it near the basis functions is integrated: then a number of angles that
depends only on the basis is enough for ellipses of any size.
"""

from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from regard.kernels.common.operator import is_plain

POINTS = list(zip(*(x.tolist() for x in np.polynomial.legendre.leggauss(6)), strict=True))  # z, weight
NARROW = 0.25  # below it B cancels
REACH = 7.0  # exp(−7²/2) = 2e−11


def gauss(x: Tensor) -> Tensor:
    """exp(−x²/2)."""
    bell: Tensor = (x * x * -0.5).exp()
    return bell


def either(condition: Tensor, yes: Callable[[], Tensor], no: Callable[[], Tensor]) -> Tensor:
    """torch.where, but outside of compilation and transforms an unused branch is not computed."""
    if is_plain(condition):
        if not bool(condition.any()):
            return no()
        if bool(condition.all()):
            return yes()
    return torch.where(condition, yes(), no())


def _parts(kappa: Tensor, e: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """I, g(κ − e) and g(κ + e), for e ≥ 0."""
    low, high = e - kappa, e + kappa
    mass = (pi / 2) ** 0.5 * (torch.erfc(low * 0.5**0.5) - torch.erfc(high * 0.5**0.5))
    return mass, gauss(low), gauss(high)


def _joined(kappa: Tensor, e: Tensor, mass: Tensor, near: Tensor, far: Tensor) -> Tensor:
    return (kappa + e) * near + (kappa - e) * far + (kappa.square() - e.square() - 1) * mass


class _Wide(Function):
    """B(κ, e) with ∂B/∂κ = 2κI and ∂B/∂e = 2(g(κ − e) − g(κ + e)) − 2eI: a third of autograd's memory."""

    @staticmethod
    def forward(ctx: Any, kappa: Tensor, e: Tensor) -> Tensor:
        mass, near, far = _parts(kappa, e)
        ctx.save_for_backward(kappa, e, mass, near - far)
        return _joined(kappa, e, mass, near, far)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        kappa, e, mass, difference = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative may follow
            mass, near, far = _parts(kappa, e)
            difference = near - far
        by_kappa = (gradient * mass).sum_to_size(kappa.shape) * (2 * kappa)
        return by_kappa, 2 * gradient * (difference - e * mass)


_wide: Callable[..., Tensor] = super(Function, _Wide).apply


def wide(kappa: Tensor, e: Tensor) -> Tensor:
    """B(κ, e) (..., N), for κ (..., 1) and e (..., N)."""
    e = torch.where(e < 0, -e, e)  # not abs(), whose second derivative at 0 is not that of B
    if is_plain(kappa) and is_plain(e) and torch.is_grad_enabled() and forward_ad._current_level < 0:
        return _wide(kappa, e)
    return _joined(kappa, e, *_parts(kappa, e))


def narrow(kappa: Tensor, e: Tensor) -> Tensor:
    """F(κ, e), for κ (...) below ¼ and e (...)."""
    total = torch.zeros_like(e)
    for z, weight in POINTS:
        total = total + 0.75 * weight * (1 - z * z) * gauss(kappa * z - e)
    return total


def smoothed(kappa: Tensor, e: Tensor) -> Tensor:
    """F(κ, e) (..., N), for κ (..., 1) and e (..., N)."""
    small = kappa < NARROW
    large = torch.where(small, 1, kappa)
    return either(small, lambda: narrow(kappa, e), lambda: 0.75 / large**3 * wide(large, e))


def angles(number: int) -> int:
    """A sufficient number of angles for `number` basis functions one width apart."""
    return 2 * number + 30


def across_ellipse(ellipse: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """E[ψ] (..., N, N) of an ellipse (..., 2, 2) and centres down and across (..., N) from it, in widths."""
    lying = ellipse[..., 1, 1] > ellipse[..., 0, 0]  # (...), the second axis is the longer one
    flip = lying.unsqueeze(-1)
    e1, e2 = torch.where(flip, across, down), torch.where(flip, down, across)
    long = torch.where(lying, ellipse[..., 1, 1], ellipse[..., 0, 0])
    short = torch.where(lying, ellipse[..., 0, 0], ellipse[..., 1, 1])
    w11 = long.sqrt()[..., None, None]  # (..., 1, 1)
    w21 = ellipse[..., 0, 1, None, None] / w11
    w22 = (long * short - ellipse[..., 0, 1].square()).sqrt()[..., None, None] / w11

    count = angles(e1.shape[-1])
    phi = (torch.arange(count, dtype=e1.dtype, device=e1.device) + 0.5) * (pi / count) - pi / 2
    start = ((e1.amin(-1) - REACH) / w11[..., 0, 0]).detach().clamp(-1, 1)
    stop = ((e1.amax(-1) + REACH) / w11[..., 0, 0]).detach().clamp(-1, 1)
    half = (stop - start).unsqueeze(-1) / 2
    y = (start + stop).unsqueeze(-1) / 2 + half * phi.sin()  # (..., M), from start to stop
    step = half * phi.cos() * (8 / (3 * pi) * pi / count)
    chord = (1 - y.square()).clamp(min=0).sqrt()

    y, chord, step = y.unsqueeze(-1), chord.unsqueeze(-1), step.unsqueeze(-1)  # (..., M, 1)
    e = e2.unsqueeze(-2) - w21 * y  # (..., M, N)
    thin = w22 < NARROW
    large = torch.where(thin, 1, w22)
    lines = either(
        thin,
        lambda: step * chord**3 * narrow(w22 * chord, e),
        lambda: 0.75 * step / large**3 * wide(large * chord, e),
    )
    rows = gauss(w11 * y - e1.unsqueeze(-2))  # (..., M, N)
    answer = rows.mT @ lines
    return torch.where(lying[..., None, None], answer.mT, answer)
