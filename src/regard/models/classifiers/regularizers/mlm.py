"""Masked-language-model loss on the encoder's hidden states.

    + (η/|M|) Σ_{t ∈ M} −log p(x_t | h'_t)        p(· | h) = softmax(E W h + b)

M are 15 % of the words, sampled in every batch; h' are the hidden states of the text with M replaced by a
learned vector, in a second forward pass: the class is predicted from the whole text. E are the word vectors.
In eval mode (validation) the sample is the same each time.

Tutek & Šnajder (2020), "Staying True to Your Word", arXiv:2005.09379. (One lecture leaves η out.) Where a
hidden state depends on its own word only, masked words cannot be predicted.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.classifiers.classifier_model import real
from regard.models.classifiers.regularizers.regularizer import Regularizer, RegularizerInput, register

SHARE = 0.15


@register()
class MaskedWords(Regularizer):
    """Predict masked words from their hidden states."""

    def __init__(self, model: Any, width: int, forbidden: Tensor | None):
        super().__init__(model, width, forbidden)
        self.instead = nn.Parameter(torch.randn(model.config.embedding) * 0.1)  # the vector of a masked word
        self.W = nn.Linear(width, model.config.embedding, bias=False)
        self.bias = nn.Parameter(torch.zeros(model.config.vocabulary))

    def forward(self, inputs: RegularizerInput) -> Tensor:
        tokens, words = inputs.tokens, inputs.model.words
        masked = real(inputs.lengths, tokens.shape[1]) & (self._uniform(tokens) < SHARE)
        masked[0, 0] |= ~masked.any()  # at least one
        vectors = torch.where(masked.unsqueeze(-1), self.instead, words.E(tokens))
        states = inputs.model.states(words.dropout(vectors), inputs.lengths)
        logits = self.W(states[masked]) @ words.E.weight.T + self.bias  # (|M|, vocabulary)
        return F.cross_entropy(logits.float(), tokens[masked]).expand(len(tokens))

    def _uniform(self, tokens: Tensor) -> Tensor:
        """Uniform random numbers (b, n); in eval mode always the same."""
        if self.training:
            return torch.rand(tokens.shape, device=tokens.device)
        return torch.rand(tokens.shape, generator=torch.Generator().manual_seed(0)).to(tokens.device)
