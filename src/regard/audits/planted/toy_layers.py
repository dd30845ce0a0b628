"""Layers of planted models that are no classifiers of this project: states without context, and scores."""

import torch
from torch import Tensor, nn

from regard.audits.planted.planted_texts import VOCABULARY
from regard.models.classifiers.classifier_model import real

WIDTH = 32


class States(nn.Module):
    """h_j = tanh(E[x_j]), or E[x_j] if it is not bounded: without context."""

    def __init__(self, bounded: bool = True) -> None:
        super().__init__()
        self.bounded = bounded
        self.E = nn.Embedding(VOCABULARY, WIDTH)
        nn.init.normal_(self.E.weight, std=0.1)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (b, n) to states (b, n, WIDTH)."""
        vectors: Tensor = self.E(tokens)
        return torch.tanh(vectors) if self.bounded else vectors


class Scores(nn.Module):
    """A score for each word of the vocabulary, as a query and keys without context would give.

    `scale` is the standard deviation of the initial scores.
    """

    def __init__(self, scale: float = 0.1):
        super().__init__()
        self.theta = nn.Embedding(VOCABULARY, 1)
        nn.init.normal_(self.theta.weight, std=scale)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Tokens (b, n) to scores (b, n), −inf at padding."""
        theta: Tensor = self.theta(tokens).squeeze(-1)
        return theta.masked_fill(~real(lengths, tokens.shape[1]), -torch.inf)

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Softmax of the scores: (b, n)."""
        found: Tensor = self(tokens, lengths).softmax(-1)
        return found


def context(weights: Tensor, states: Tensor) -> Tensor:
    """Σ_j w_j h_j of weights (b, n) and states (b, n, d): (b, d)."""
    return (weights.unsqueeze(-2) @ states).squeeze(-2)


def mean(states: Tensor, lengths: Tensor) -> Tensor:
    """The mean of the states (b, n, d) that are no padding: (b, d)."""
    there = real(lengths, states.shape[1])
    return context(there / lengths.unsqueeze(-1), states)
