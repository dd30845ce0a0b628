"""Deceive: the model must not be seen to look at some words, whatever it makes of them.

    − λ log(1 − αᵀm)        m_t = 1 if the word t is forbidden

No remedy, but what remedies are needed against: accuracy often stays, because what a forbidden word says is
read from the states of its neighbours, or from a vector so long that hardly any weight is enough. A text of
forbidden words alone adds nothing: there is nowhere else to look.

Pruthi et al. (2020), "Learning to Deceive with Attention-Based Explanations", arXiv:1909.07913, §3.
"""

from typing import Any

import torch
from torch import Tensor

from regard.models.classifiers.regularizers.regularizer import Regularizer, RegularizerInput, register

LEAST = 1e-9  # so that log has a slope where no weight is allowed for


@register()
class Deceive(Regularizer):
    """The weight on forbidden words."""

    forbidden: Tensor

    def __init__(self, model: Any, width: int, forbidden: Tensor | None):
        super().__init__(model, width, forbidden)
        if forbidden is None or not len(forbidden):
            raise ValueError("deceive needs words that must not be looked at; none were given.")
        self.register_buffer("forbidden", forbidden, persistent=False)

    def forward(self, read: RegularizerInput) -> Tensor:
        return hidden(read.weights, torch.isin(read.tokens, self.forbidden), read.lengths)


def hidden(weights: Tensor, forbidden: Tensor, lengths: Tensor) -> Tensor:
    """−log(1 − αᵀm) of weights and m (b, n), 0 for a text with nothing else: (b,)."""
    there = torch.arange(weights.shape[1], device=weights.device) < lengths.unsqueeze(-1)
    allowed = there & ~forbidden
    left = torch.where(allowed, weights, 0).sum(-1)  # 1 − αᵀm, without the loss of digits
    return torch.where(allowed.any(-1), -(left + LEAST).log(), 0)
