"""Sentences before the one that is translated, as context of its hidden states.

    s_k = attend(h_t, words of the k-th sentence before)        for k = 1 … K, by word attention
    d_t = FFN(attend(h_t, s_1 … s_K))                           by sentence attention
    h̃_t = λ_t ⊙ h_t + (1 − λ_t) ⊙ d_t,      λ_t = σ(W_h h_t + W_d d_t)

The sentences of a document are one row of tokens, oldest first, with EOS after each but the last, which is
the one to translate. `sentences_before` counts back from it. Where there is no sentence before, h̃ = h.

Miculicich, Ram, Pappas & Henderson (2018), "Document-Level Neural Machine Translation with Hierarchical
Attention Networks", arXiv:1809.01576, §2 (the encoder's side of it).
Departs from the paper: the linear layers before the two attentions are those of their heads; summaries get a
learned vector that says how far back they are, as order is not seen otherwise.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.core.tokens import EOS
from regard.heads import MultiHead
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.feed_forward import FeedForward

PADDING = -1


def sentences_before(source: Tensor, lengths: Tensor) -> Tensor:
    """How many sentences before the last each token (b, n) stands: 0 in the last, −1 for padding."""
    ends = (source == EOS).long()
    real = torch.arange(source.shape[1], device=source.device) < lengths.unsqueeze(-1)
    back = (ends * real).flip(-1).cumsum(-1).flip(-1)  # an EOS is a token of the sentence that it ends
    return torch.where(real, back, PADDING)


class DocumentContext(nn.Module):
    """Word attention to each of `sentences` sentences, sentence attention to what it found, and a gate."""

    def __init__(
        self,
        width: int,
        heads: int,
        sentences: int,
        inner: int,
        map: Callable[[], Callable[..., Tensor]],
        dropout: float = 0.0,
    ):
        super().__init__()
        self.sentences = sentences
        self.over_words = MultiHead(width, heads, map=map())
        self.over_sentences = MultiHead(width, heads, map=map())
        self.distance = nn.Parameter(0.02 * torch.randn(sentences, width))
        self.feed_forward = FeedForward(width, inner)
        self.gate_hidden, self.gate_context = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Tensor, back: Tensor) -> Tensor:
        """Hidden states (b, n, width) and `sentences_before` (b, n) to hidden states (b, n, width)."""
        numbers = torch.arange(1, self.sentences + 1, device=back.device)
        words = back.unsqueeze(1) == numbers.unsqueeze(-1)  # (b, K, n)
        there = words.any(-1)  # (b, K)
        every = hidden.unsqueeze(1).expand(-1, self.sentences, -1, -1)
        found = self.over_words(every, every, mask=words[:, :, None, None]).context  # (b, K, n, width)
        summaries = (found + self.distance.unsqueeze(1)).transpose(1, 2)  # (b, n, K, width)
        joined = self.over_sentences(hidden.unsqueeze(2), summaries, mask=there[:, None, None, None])
        context = self.dropout(self.feed_forward(joined.context.squeeze(2)))
        gate = torch.sigmoid(self.gate_hidden(hidden) + self.gate_context(context))
        mixed = gate * hidden + (1 - gate) * context
        return torch.where(there.any(-1)[:, None, None], mixed, hidden)


def weights_before(over_words: Tensor, over_sentences: Tensor) -> Tensor:
    """Weights (b, n, n) on the words before, heads averaged: Σ_k p(sentence k) p(word | sentence k).

    Word attention has weights (b, K, heads, n, n), sentence attention (b, n, heads, 1, K).
    """
    return torch.einsum("bkti,btk->bti", over_words.mean(2), over_sentences.mean(2).squeeze(-2))
