"""A rationalizer whose words are drawn from HardKuma: 0 and 1 have probability, and so has what is between.

    k = (1 − u^{1/b})^{1/a},  u ~ U(0, 1)        t = l + (r − l) k        z = min(1, max(0, t))

k is Kumaraswamy's variable, stretched to (l, r) = (−0.1, 1.1) and cut off. The noise u does not depend on a
and b, so that a gradient reaches them through the draw itself; and P(z > 0) = (1 − (−l/(r−l))^a)^b is known.
For the penalty of `rationalizer` a word counts as 1 if z > 0.

Bastings, Aziz & Titov (2019), "Interpretable Neural Predictions with Differentiable Binary Variables",
arXiv:1905.08160, §3–4.
Departs from the paper: one score for both, a = σ(θ) and b = 1 − a, below 1, so that 0 and 1 are likelier than
what is between, and the odds of P(z > 0) grow as exp(θ) at either end; in eval mode a word is
selected or not, none by half.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.models.classifiers.rationalizer import Rationale, Rationalizer, Selection
from regard.models.entries import register_classifier

LOW, HIGH = -0.1, 1.1  # l and r
SMALL = 1e-6  # a and b are no less, for 1/a and 1/b


@dataclass(frozen=True)
class Config(Rationale):
    """Sizes and parts of a rationalizer with HardKuma variables."""


@register_classifier(Config)
class RationalizerHardKuma(Rationalizer):
    """Selects words by HardKuma variables, which have a gradient of their own."""

    def draw(self, theta: Tensor) -> Selection:
        there = theta > -torch.inf
        theta = torch.where(there, theta, 0)
        a, b = theta.sigmoid().clamp(min=SMALL), (-theta).sigmoid().clamp(min=SMALL)
        u = torch.rand_like(theta).clamp(1e-6, 1 - 1e-6)
        passes = chance(a, b) * there
        return Selection(hardkuma(u, a, b) * there, passes, passes)


def hardkuma(u: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """HardKuma variables of shape a and b for noise u, uniform between 0 and 1."""
    log_k = torch.log(-torch.expm1(u.log() / b)) / a
    return (LOW + (HIGH - LOW) * log_k.exp()).clamp(0, 1)


def chance(a: Tensor, b: Tensor) -> Tensor:
    """P(z > 0) of HardKuma variables of shape a and b."""
    return torch.exp(b * torch.log1p(-torch.exp(a * math.log(-LOW / (HIGH - LOW)))))
