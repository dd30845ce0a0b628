"""Tie: each state stays near the vector of its own word.

    + (λ/n) Σ_t ‖h_t − e_t‖²

A state that is near its word says little of other words, so that weight on it is weight on the word. States
and vectors must have the same width; there is no projection in between, since behind one a state could be
anything from which the word can be told. e_t is the vector as the encoder read it, after dropout; both sides
move.

Tutek & Šnajder (2020), "Staying True to Your Word: (How) Can Attention Become Explanation?",
arXiv:2005.09379. (One lecture subtracts the sum, which drives states away from their words.)
"""

from typing import Any

import torch
from torch import Tensor

from regard.models.classifiers.regularizers.regularizer import Regularizer, RegularizerInput, register


@register()
class Tie(Regularizer):
    """The mean squared distance of states from their words' vectors."""

    def __init__(self, model: Any, width: int, forbidden: Tensor | None):
        super().__init__(model, width, forbidden)
        if width != model.config.embedding:
            raise ValueError(
                "tie compares states with words' vectors, so the width must equal the embedding; "
                f"got width={width}, embedding={model.config.embedding}."
            )

    def forward(self, read: RegularizerInput) -> Tensor:
        return tied(read.states, read.vectors, read.lengths)


def tied(states: Tensor, vectors: Tensor, lengths: Tensor) -> Tensor:
    """(1/n) Σ_t ‖h_t − e_t‖² over the first `lengths` (b,) of states and vectors (b, n, d): (b,)."""
    there = torch.arange(states.shape[1], device=states.device) < lengths.unsqueeze(-1)
    far = torch.where(there.unsqueeze(-1), states - vectors, 0).square().sum(-1)  # (b, n)
    return far.sum(-1) / lengths
