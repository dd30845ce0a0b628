"""Global fertility: a loss on the total weight of each source word over a whole sentence.

    fⱼ = Σᵢ pᵢⱼ          loss = −Σⱼ log N(fⱼ; μⱼ, σⱼ²)

μ and σ² are predicted from each source word. Unlike the local bias it is part of the training objective only,
not of decoding.

Cohn et al. (2016), "Incorporating Structural Alignment Biases", arXiv:1601.01085, §4.3.
"""

import math

import torch
from torch import Tensor


def global_fertility(weights: Tensor, mean: Tensor, variance: Tensor, real: Tensor) -> Tensor:
    """The loss summed over the `real` keys (..., n), for weights (..., m, n), mean and variance (..., n)."""
    total = weights.sum(-2)
    log_p = -0.5 * ((total - mean) ** 2 / variance + variance.log() + math.log(2 * math.pi))
    return -torch.where(real, log_p, 0).sum()
