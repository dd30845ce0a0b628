"""Word embeddings of a classifier, with word dropout.

In training, a word is replaced by UNK with probability `word_dropout`, so that the UNK vector is learned and
the model does not rely on single words (Iyyer et al. 2015, "Deep Unordered Composition Rivals Syntactic
Methods for Text Classification", §3.1, there with the word left out).
"""

import torch
from torch import Tensor, nn

from regard.core.shapes import check_rate
from regard.core.tokens import PAD, UNK
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.initialization import glorot


class WordVectors(nn.Module):
    """Embeddings E (vocabulary, width) with dropout."""

    def __init__(self, vocabulary: int, width: int, dropout: float, word_dropout: float):
        super().__init__()
        self.E = nn.Embedding(vocabulary, width)
        self.dropout = Dropout(check_rate("dropout", dropout))
        self.word_dropout = check_rate("word_dropout", word_dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (b, n) to (b, n, width)."""
        if self.training and self.word_dropout:
            dropped = torch.rand(tokens.shape, device=tokens.device) < self.word_dropout
            tokens = tokens.masked_fill(dropped & (tokens != PAD), UNK)
        vectors: Tensor = self.dropout(self.E(tokens))
        return vectors


def initialize(model: nn.Module) -> None:
    """Initialize with `glorot`, word vectors small, since those of rare words hardly move in training."""
    glorot(model)
    for module in model.modules():
        if isinstance(module, WordVectors):
            nn.init.normal_(module.E.weight, std=0.1)
