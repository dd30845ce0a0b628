"""A rationalizer with HardKuma variables: continuous on (0, 1), with positive probability of exactly 0 and 1.

    k = (1 − u^{1/b})^{1/a},  u ~ U(0, 1)        t = l + (r − l) k        z = min(1, max(0, t))

k is a Kumaraswamy variable, stretched to (l, r) = (−0.1, 1.1) and clipped. The noise u does not depend on a
and b, so they get reparameterization gradients; P(z > 0) = (1 − (−l/(r−l))^a)^b has a closed form. For the
penalty of `rationalizer` a word counts as 1 if z > 0.

Bastings, Aziz & Titov (2019), "Interpretable Neural Predictions with Differentiable Binary Variables",
arXiv:1905.08160, §3–4.
Departs from the paper: one score for both, a = σ(θ) and b = 1 − a; both are below 1, so that 0 and 1 are more
probable than values in between, and the odds of P(z > 0) grow as exp(θ) at either end; in eval mode z is 0 or
1.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.models.classifiers.rationalizer import Rationalizer, RationalizerConfig, Selection
from regard.models.entries import register_classifier

LOW, HIGH = -0.1, 1.1  # l and r
SMALL = 1e-6  # lower bound of a and b, for 1/a and 1/b


@dataclass(frozen=True)
class Config(RationalizerConfig):
    """Configuration of a rationalizer with HardKuma variables."""


@register_classifier(Config)
class RationalizerHardKuma(Rationalizer):
    """Selects words by HardKuma variables, with reparameterization gradients."""

    def draw(self, theta: Tensor) -> Selection:
        is_real = theta > -torch.inf
        theta = torch.where(is_real, theta, 0)
        a, b = theta.sigmoid().clamp(min=SMALL), (-theta).sigmoid().clamp(min=SMALL)
        u = torch.rand_like(theta).clamp(1e-6, 1 - 1e-6)
        p = chance(a, b) * is_real
        return Selection(hardkuma(u, a, b) * is_real, p, p)


def hardkuma(u: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """HardKuma variables of shape a and b for noise u, uniform between 0 and 1."""
    log_k = torch.log(-torch.expm1(u.log() / b)) / a
    return (LOW + (HIGH - LOW) * log_k.exp()).clamp(0, 1)


def chance(a: Tensor, b: Tensor) -> Tensor:
    """P(z > 0) of HardKuma variables of shape a and b."""
    return torch.exp(b * torch.log1p(-torch.exp(a * math.log(-LOW / (HIGH - LOW)))))
