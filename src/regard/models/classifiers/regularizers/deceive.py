"""Deceive: a penalty on the weight of forbidden words, which the model may still use.

    − λ log(1 − αᵀm)        m_t = 1 if the word t is forbidden;    of several heads the mean over them

It makes weights misleading: accuracy often stays, because the information of a forbidden word is read from
the hidden states of its neighbours, or from a vector so large that a tiny weight is enough. The penalty of a
text of forbidden words alone is 0.

Pruthi et al. (2020), "Learning to Deceive with Attention-Based Explanations", arXiv:1909.07913, §3.
"""

from typing import Any

import torch
from torch import Tensor

from regard.models.classifiers.classifier_model import real
from regard.models.classifiers.regularizers.regularizer import Regularizer, RegularizerInput, register

EPSILON = 1e-9  # keeps the logarithm and its gradient finite


@register()
class Deceive(Regularizer):
    """Penalizes weight on forbidden words."""

    forbidden: Tensor

    def __init__(self, model: Any, width: int, forbidden: Tensor | None):
        super().__init__(model, width, forbidden)
        if forbidden is None or not len(forbidden):
            raise ValueError("deceive needs forbidden words; got none.")
        self.register_buffer("forbidden", forbidden, persistent=False)

    def forward(self, inputs: RegularizerInput) -> Tensor:
        forbidden = torch.isin(inputs.tokens, self.forbidden)
        if inputs.forbidden is not None:
            forbidden = forbidden | inputs.forbidden
        heads = inputs.weights.unbind(1)
        return self.over_heads(
            torch.stack([forbidden_penalty(one, forbidden, inputs.lengths) for one in heads])
        )

    def over_heads(self, penalties: Tensor) -> Tensor:
        """Penalties of heads (k, b) to those of texts (b,)."""
        return penalties.mean(0)


def forbidden_penalty(weights: Tensor, forbidden: Tensor, lengths: Tensor) -> Tensor:
    """−log(1 − αᵀm) of weights and m (b, n), 0 for a text of forbidden words alone: (b,)."""
    allowed = real(lengths, weights.shape[1]) & ~forbidden
    total = torch.where(allowed, weights, 0).sum(-1)  # 1 − αᵀm, without cancellation
    return torch.where(allowed.any(-1), -(total + EPSILON).log(), 0)
