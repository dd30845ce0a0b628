"""A rationalizer without chance: for each word α-entmax weighs "in" against "out", and both can have all.

    zⱼ = entmax_α([θⱼ, 0])₁        0 for θⱼ ≤ −1/(α − 1), 1 for θⱼ ≥ 1/(α − 1)

The sigmoid's sparse relative: a word can be left out wholly, or seen wholly, or by half. Nothing is drawn
and the gradient is exact; where zⱼ is 0 or 1 it is 0. While training, what counts as selected is any zⱼ > 0.

Treviso & Martins (2020), "The Explanation Game", arXiv:2004.13876: sparse attention as the selector.
α-entmax: Peters, Niculae & Martins (2019), arXiv:1905.05702.
Departs from the paper: there all words share one α-entmax, and states that have read the text are summed by
it; here each word has its own, so that one text may need more words than another, and words are taken before
anything has read them. In eval mode a word is selected if zⱼ > 0, and then seen wholly.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.maps import entmax
from regard.models.classifiers.rationalizer import Rationale, Rationalizer, Selection
from regard.models.entries import register_classifier


@dataclass(frozen=True)
class Config(Rationale):
    """Sizes and parts of a rationalizer with α-entmax."""

    alpha: float = 1.5  # the larger, the sooner a word is in or out


@register_classifier(Config)
class RationalizerEntmax(Rationalizer):
    """Selects the words that α-entmax does not leave out; nothing is random."""

    def __init__(self, config: Config):
        if not config.alpha > 1:
            raise ValueError(f"alpha must be more than 1, or no word is left out; got {config.alpha}.")
        super().__init__(config)

    def draw(self, theta: Tensor) -> Selection:
        z = entmax(torch.stack([theta, torch.zeros_like(theta)], -1), self.config.alpha)[..., 0]  # (b, n)
        return Selection(z, z, (z > 0).to(z.dtype))
