"""A deterministic rationalizer: each word is selected by α-entmax over two options, "in" and "out".

    zⱼ = entmax_α([θⱼ, 0])₁        0 for θⱼ ≤ −1/(α − 1), 1 for θⱼ ≥ 1/(α − 1)

A sparse counterpart of the sigmoid: zⱼ can be exactly 0 or 1, or in between. There is no sampling and the
gradient is exact; where zⱼ is 0 or 1 it is 0. In training, a word with zⱼ > 0 counts as selected.

Treviso & Martins (2020), "The Explanation Game", arXiv:2004.13876: sparse attention as the selector.
α-entmax: Peters, Niculae & Martins (2019), arXiv:1905.05702.
Departs from the paper: there one α-entmax over all words weighs the encoder's hidden states; here each word
has its own, so texts can differ in their number of selected words, and selection is applied to the
embeddings, before any encoder. In eval mode zⱼ > 0 becomes zⱼ = 1.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.maps import entmax
from regard.models.classifiers.rationalizer import Rationalizer, RationalizerConfig, Selection
from regard.models.entries import register_classifier


@dataclass(frozen=True)
class Config(RationalizerConfig):
    """Configuration of a rationalizer with α-entmax."""

    alpha: float = 1.5  # the larger, the more zⱼ are exactly 0 or 1


@register_classifier(Config)
class RationalizerEntmax(Rationalizer):
    """Selects words by binary α-entmax, without sampling."""

    def __init__(self, config: Config):
        if not config.alpha > 1:
            raise ValueError(f"alpha must be more than 1, or no zⱼ is exactly 0; got {config.alpha}.")
        super().__init__(config)

    def draw(self, theta: Tensor) -> Selection:
        z = entmax(torch.stack([theta, torch.zeros_like(theta)], -1), self.config.alpha)[..., 0]  # (b, n)
        return Selection(z, z, (z > 0).to(z.dtype))
