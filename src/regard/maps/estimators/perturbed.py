"""Perturb-and-MAP: the best vertex of noisy scores, whose mean over the noise is smooth.

    p = (1/K) Σₖ sₖ,   sₖ = best(θ + εgₖ),   gₖ ~ Gumbel, of mean 0
    ∂L/∂θ := (1/Kε) Σₖ (1 − eₖ) (sₖ − best(θ))ᵀ ∂L/∂p

with e ~ Exp(1) and g = −log e − γ. The Jacobian is unbiased for that of the perturbed mean E[s] (for one key
of n and ε = 1, softmax(θ)), since 1 − e is minus the slope of the log-density of g; taking off best(θ), which
is not random, lowers the variance. So the gradient is unbiased where the loss is linear in p, and biased
where it bends.

Papandreou & Yuille (2011), "Perturb-and-MAP Random Fields"; Berthet et al. (2020), arXiv:2002.08676.
"""

from math import isfinite

import torch
from torch import Generator, Tensor

from regard.maps.estimators.estimator import Estimator, Vertices, exponential, gumbel, through


class PerturbAndMap(Estimator):
    """The mean of K = samples draws with noise of size ε = scale, for any structure."""

    def __init__(self, samples: int = 1, *, scale: float = 1.0) -> None:
        super().__init__()
        if samples < 1:
            raise ValueError(f"samples must be at least 1; got {samples}.")
        if not (scale > 0 and isfinite(scale)):
            raise ValueError(f"scale must be above 0 and finite; got {scale}. Without noise use Spigot().")
        self.samples, self.scale = samples, scale

    def draw(self, theta: Tensor, among: Vertices, generator: Generator | None) -> Tensor:
        """The mean of the vertices drawn for scores (..., n): (..., n)."""
        axes = (-1,) if among.acts_on == "row" else (-2, -1)
        with torch.no_grad():
            noise = exponential(theta.expand(self.samples, *theta.shape), generator)  # (K, ..., n), e
            vertices = among.best(theta + self.scale * gumbel(noise))  # (K, ..., n)
            away, slope = vertices - among.best(theta), 1 - noise
        along = (slope * torch.where(theta == -torch.inf, 0, theta)).sum(axes, keepdim=True)  # (K, ..., 1)
        return through(vertices.mean(0), (away * along).mean(0) / self.scale)

    def extra_repr(self) -> str:
        return f"samples={self.samples}, scale={self.scale}"
