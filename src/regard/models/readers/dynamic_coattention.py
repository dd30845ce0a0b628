"""Dynamic coattention: question and passage attend to each other, and a decoder that guesses again and again.

    D = [d_∅; LSTM(passage)]       Q′ = [q_∅; LSTM(question)], the same LSTM       Q = tanh(W Q′ + b)
    L = DQᵀ                        A^Q: words of the question over the passage     A^D: the other way round
    C^Q = A^Q D                    C^D = A^D [Q; C^Q]                              U = BiLSTM([D; C^D])

d_∅ and q_∅ are sentinels, learned keys: a word that concerns nothing can look there. They take part in both
softmaxes, and nothing points at them. The decoder is in `highway_maxout`.

Xiong, Zhong & Socher (2017), "Dynamic Coattention Networks for Question Answering", arXiv:1611.01604, §2.
Departs from the paper: sentinels stand first; the BiLSTM also gets D ∘ A^D Q and D ∘ mean Q, which say how
well a word matches the question; words have features beside their vectors, which are learned; smaller widths
and pools; dropout is variational; several right answers, and words inside of them, count (`reader_model`).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import Attention, resolve_score
from regard.masks import Lengths
from regard.models.entries import register_reader
from regard.models.parts.named_components import make_map
from regard.models.parts.padded_lstm import PaddedLSTM
from regard.models.readers.highway_maxout import PointingDecoder
from regard.models.readers.reader_model import (
    ReaderConfig,
    ReaderModel,
    ReadTexts,
    SpanLogits,
    attention_roles,
)


@dataclass(frozen=True)
class Config(ReaderConfig):
    """Configuration of a dynamic coattention network."""

    decoder: int = 50  # width of the decoder
    pool: int = 4  # pieces of each maxout
    iterations: int = 4  # guesses at most


@register_reader(Config)
class DynamicCoattention(ReaderModel):
    """Coattention of question and passage; start and end of the answer guessed again and again."""

    def __init__(self, config: Config):
        super().__init__(config)
        width = config.width
        self.encoder = PaddedLSTM(self.inputs, width)  # of both texts
        self.project = nn.Linear(width, width)
        self.passage_sentinel, self.question_sentinel = (nn.Parameter(torch.randn(width) * 0.1) for _ in "dq")
        self.over_passage, self.over_question = (
            Attention(
                resolve_score(config.score, width, width),
                make_map(config.map, learn_alpha=config.learn_alpha),
            )
            for _ in range(2)
        )
        self.fusion = PaddedLSTM(self.fused + config.features, 2 * width, both=True)
        self.decoder = PointingDecoder(2 * width, config.decoder, config.pool, config.iterations)
        self.inside = nn.Linear(2 * width, 1)
        self.attention_paths = attention_roles(*self.paths)

    @property
    def fused(self) -> int:
        """The width of [D; C^D] and of the products with D."""
        return 5 * self.config.width

    @property
    def paths(self) -> tuple[list[str], list[str]]:
        """The attentions over the passage, and those over the question."""
        return ["over_passage"], ["over_question"]

    def from_embedded(self, passage: Tensor, question: Tensor, texts: ReadTexts) -> list[SpanLogits]:
        n, m = texts.lengths, texts.question_lengths
        D = self.encoder(self.dropout(passage), n)
        Q = self.encoder(self.dropout(question), m)
        D = with_sentinel(self.passage_sentinel, D)
        Q = torch.tanh(self.project(with_sentinel(self.question_sentinel, Q)))
        context = self.coattend(D, Q, n + 1, m + 1)
        features = texts.features.to(D.dtype)
        asked = torch.arange(Q.shape[1], device=Q.device) <= m.unsqueeze(-1)  # real words, and the sentinel
        mean = torch.where(asked.unsqueeze(-1), Q, 0).sum(1, keepdim=True) / (m + 1).view(-1, 1, 1)
        matched = D * context[..., : D.shape[-1]], D * mean
        fused = torch.cat(
            (torch.cat((D, context, *matched), -1)[:, 1:], features), -1
        )  # without the sentinel
        U = self.fusion(self.dropout(fused), n)
        U = self.dropout(U)
        found: list[SpanLogits] = self.decoder(U, n)
        return [*found[:-1], found[-1]._replace(inside=self.inside(U).squeeze(-1))]

    def coattend(self, D: Tensor, Q: Tensor, n: Tensor, m: Tensor) -> Tensor:
        """C^D (b, n + 1, 2 width) of D (b, n + 1, width) and Q (b, m + 1, width), of these lengths (b,)."""
        of_passage = self.over_passage(Q, D, mask=Lengths(n)).context  # C^Q
        context: Tensor = self.over_question(D, Q, torch.cat((Q, of_passage), -1), mask=Lengths(m)).context
        return context


def with_sentinel(sentinel: Tensor, states: Tensor) -> Tensor:
    """States (b, n, width) with a sentinel (width,) before them."""
    return torch.cat((sentinel.expand(len(states), 1, -1), states), 1)
