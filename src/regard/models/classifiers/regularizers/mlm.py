"""Masked words: from the states it must still be possible to tell which words they are of.

    + (η/|M|) Σ_{t ∈ M} −log p(x_t | h'_t)        p(· | h) = softmax(E W h + b)

M are 15 % of the words, drawn anew each time; h' are the states of the text with a learned vector in their
place, so that the class itself is still learned from whole texts. E are the words' vectors. Without training
(validation) the words are drawn the same way each time.

Tutek & Šnajder (2020), "Staying True to Your Word", arXiv:2005.09379. (One lecture leaves η out.) In a model
whose states know one word only there is nothing to guess a masked word from.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.classifiers.regularizers.regularizer import Regularizer, RegularizerInput, register

SHARE = 0.15


@register()
class MaskedWords(Regularizer):
    """Guess masked words from the states around them."""

    def __init__(self, model: Any, width: int, forbidden: Tensor | None):
        super().__init__(model, width, forbidden)
        self.instead = nn.Parameter(torch.randn(model.config.embedding) * 0.1)  # of a masked word
        self.W = nn.Linear(width, model.config.embedding, bias=False)
        self.bias = nn.Parameter(torch.zeros(model.config.vocabulary))

    def forward(self, read: RegularizerInput) -> Tensor:
        n, b = read.tokens.shape[1], len(read.tokens)
        there = torch.arange(n, device=read.tokens.device) < read.lengths.unsqueeze(-1)
        masked = there & (self._chance(read.tokens) < SHARE)
        masked[0, 0] |= ~masked.any()  # always one at least
        vectors = torch.where(masked.unsqueeze(-1), self.instead, read.model.words.E(read.tokens))
        states = read.model.states(read.model.words.dropout(vectors), read.lengths)
        guesses = self.W(states[masked]) @ read.model.words.E.weight.T + self.bias  # (|M|, vocabulary)
        return F.cross_entropy(guesses.float(), read.tokens[masked]).expand(b)

    def _chance(self, tokens: Tensor) -> Tensor:
        """Numbers from 0 to 1, (b, n)."""
        if self.training:
            return torch.rand(tokens.shape, device=tokens.device)
        return torch.rand(tokens.shape, generator=torch.Generator().manual_seed(0)).to(tokens.device)
