"""Diversity: a penalty on hidden states that all point in the same direction.

    + λ conicity(H)        conicity(H) = (1/n) Σ_t cos(h_t, mean of H)

If hidden states are similar, the weights hardly change the context.

Mohankumar et al. (2020), "Towards Transparent and Explainable Attention Models", arXiv:2004.14243, §4.2.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.models.classifiers.classifier_model import real
from regard.models.classifiers.regularizers.regularizer import Regularizer, RegularizerInput, register


@register()
class Diversity(Regularizer):
    """The conicity of the hidden states."""

    def forward(self, inputs: RegularizerInput) -> Tensor:
        return conicity(inputs.states, inputs.lengths)


def conicity(x: Tensor, lengths: Tensor) -> Tensor:
    """Conicity of the first `lengths` (b,) vectors of x (b, n, d): (b,)."""
    is_real = real(lengths, x.shape[1])
    x = torch.where(is_real.unsqueeze(-1), x, 0)
    mean = x.sum(-2, keepdim=True) / lengths.view(-1, 1, 1)
    return (F.cosine_similarity(x, mean, dim=-1) * is_real).sum(-1) / lengths
