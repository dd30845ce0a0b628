"""Tie: a penalty on the distance between each hidden state and the vector of its word.

    + (λ/n) Σ_t ‖h_t − e_t‖²

A hidden state near its word vector holds little about other words, so its weight is about that word. States
and vectors must have the same width: with a projection in between, a state could be anything from which the
word can be predicted. e_t is the vector after dropout; both sides get gradients.

Tutek & Šnajder (2020), "Staying True to Your Word: (How) Can Attention Become Explanation?",
arXiv:2005.09379. (One lecture subtracts the sum, which drives states away from their words.)
"""

from typing import Any

import torch
from torch import Tensor

from regard.models.classifiers.classifier_model import real
from regard.models.classifiers.regularizers.regularizer import Regularizer, RegularizerInput, register


@register()
class Tie(Regularizer):
    """The mean squared distance of hidden states from their word vectors."""

    def __init__(self, model: Any, width: int, forbidden: Tensor | None):
        super().__init__(model, width, forbidden)
        if width != model.config.embedding:
            raise ValueError(
                "tie compares hidden states with word vectors, so width must equal embedding; "
                f"got width={width}, embedding={model.config.embedding}."
            )

    def forward(self, inputs: RegularizerInput) -> Tensor:
        return tie_distance(inputs.states, inputs.vectors, inputs.lengths)


def tie_distance(states: Tensor, vectors: Tensor, lengths: Tensor) -> Tensor:
    """(1/n) Σ_t ‖h_t − e_t‖² over the first `lengths` (b,) of states and vectors (b, n, d): (b,)."""
    is_real = real(lengths, states.shape[1]).unsqueeze(-1)
    return torch.where(is_real, states - vectors, 0).square().sum(-1).sum(-1) / lengths
