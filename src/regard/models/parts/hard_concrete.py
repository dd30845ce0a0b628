"""Hard Concrete: gates that are exactly 0 or exactly 1 with probability, and differentiable in their scores.

    s = σ((log u − log(1 − u) + θ)/β)      v = min(1, max(0, LOW + (HIGH − LOW) s))      u uniform in (0, 1)

P(v > 0) = σ(θ − β log(−LOW/HIGH)) has a gradient, so that the number of open gates (L0) can be penalized.

Louizos, Welling & Kingma (2018), "Learning Sparse Neural Networks through L0 Regularization",
arXiv:1712.01312, §2.2.
"""

import math

import torch
from torch import Tensor

LOW, HIGH, BETA = -0.1, 1.1, 2 / 3


def sample_gates(theta: Tensor, noise: Tensor) -> Tensor:
    """Gates of scores and noise, uniform between 0 and 1, of one shape."""
    noise = noise.clamp(1e-6, 1 - 1e-6)
    return _stretched(torch.sigmoid((noise.log() - (-noise).log1p() + theta) / BETA))


def deterministic_gates(theta: Tensor) -> Tensor:
    """Gates of scores, without noise."""
    return _stretched(theta.sigmoid())


def open_probability(theta: Tensor) -> Tensor:
    """P(v > 0) of gates with these scores."""
    return torch.sigmoid(theta - BETA * math.log(-LOW / HIGH))


def _stretched(soft: Tensor) -> Tensor:
    return (LOW + (HIGH - LOW) * soft).clamp(0, 1)
