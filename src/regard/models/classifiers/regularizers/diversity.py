"""Diversity: the states of a text must not all point the same way.

    + λ conicity(H)        conicity(H) = (1/n) Σ_t cos(h_t, mean of H)

Where states are alike it makes no difference which of them is looked at.

Mohankumar et al. (2020), "Towards Transparent and Explainable Attention Models", arXiv:2004.14243, §4.2.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.models.classifiers.regularizers.regularizer import Regularizer, RegularizerInput, register


@register()
class Diversity(Regularizer):
    """The conicity of the states."""

    def forward(self, read: RegularizerInput) -> Tensor:
        return conicity(read.states, read.lengths)


def conicity(x: Tensor, lengths: Tensor) -> Tensor:
    """Conicity of the first `lengths` (b,) vectors of x (b, n, d): (b,)."""
    there = (torch.arange(x.shape[1], device=x.device) < lengths.unsqueeze(-1)).unsqueeze(-1)
    x = torch.where(there, x, 0)
    middle = x.sum(-2, keepdim=True) / lengths.view(-1, 1, 1)
    return (F.cosine_similarity(x, middle, dim=-1) * there.squeeze(-1)).sum(-1) / lengths
