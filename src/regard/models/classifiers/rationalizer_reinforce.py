"""A rationalizer that samples each word independently and learns by REINFORCE.

    zⱼ ~ Bernoulli(σ(θⱼ))        ∇E[r] = E[∇r + (r − b) ∇log p(z)],  r = log p(y | x ⊙ z)

Unbiased, with high variance: all words of a text share one reward (`regard.maps.estimators.Reinforce`). The
penalty needs no sampling: E[zⱼ] = σ(θⱼ).

Lei, Barzilay & Jaakkola (2016), "Rationalizing Neural Predictions", arXiv:1606.04155, §3–4 (the independent
selector; there without a baseline, and its penalties are part of the reward).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.maps import Hard
from regard.maps.estimators import Reinforce
from regard.models.classifiers.rationalizer import Rationalizer, RationalizerConfig, Selection
from regard.models.entries import register_classifier


@dataclass(frozen=True)
class Config(RationalizerConfig):
    """Configuration of a rationalizer that learns by REINFORCE."""


@register_classifier(Config)
class RationalizerReinforce(Rationalizer):
    """Selects words by independent Bernoulli variables, with the REINFORCE gradient."""

    def __init__(self, config: Config):
        super().__init__(config)
        self.coin = Hard(Reinforce())

    def draw(self, theta: Tensor) -> Selection:
        z: Tensor = self.coin(torch.stack([theta, torch.zeros_like(theta)], -1))[..., 0]  # one key of two
        chance = theta.sigmoid()
        return Selection(z, chance, chance)
