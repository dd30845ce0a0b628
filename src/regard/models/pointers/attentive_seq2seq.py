"""Sequence to sequence with attention, that says numbers of positions: the control of the pointer network.

    e = BiLSTM(points)        d_i = LSTM(d_{i−1}, E[said i−1])        c_i = Attention(d_i, e)
    p(C_i = j) = softmax_j W[d_i; c_i]

The output vocabulary is fixed, the positions 0 (the end) to `most`: a position beyond has no word.

Vinyals, Fortunato & Jaitly (2015), arXiv:1506.03134, §2.2; Bahdanau, Cho & Bengio (2015), arXiv:1409.0473.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Attention, resolve_score
from regard.masks import Lengths
from regard.models.entries import register_pointer
from regard.models.parts.named_components import make_map
from regard.models.parts.padded_lstm import PaddedLSTM
from regard.models.pointers.pointer_model import PointerConfig, PointerModel

HIDDEN = -1e4  # a score of what may not be said


@dataclass(frozen=True)
class Config(PointerConfig):
    """Configuration of a sequence-to-sequence model that says positions."""

    most: int = 12  # positions it can say
    width: int = 96
    score: str = "additive"
    map: str = "softmax"
    learn_alpha: bool = False


@register_pointer(Config)
class AttentiveSeq2Seq(PointerModel):
    """Sequence to sequence with attention, that says numbers of positions."""

    config: Config

    def __init__(self, config: Config):
        super().__init__()
        self.config, width = config, config.width
        self.encoder = PaddedLSTM(config.coordinates, width, both=True)
        self.embed = nn.Embedding(config.most + 2, width)  # the last is what comes before the first
        self.decoder = nn.LSTM(width, width, batch_first=True)
        self.attention = Attention(
            resolve_score(config.score, width, width), make_map(config.map, learn_alpha=config.learn_alpha)
        )
        self.read = nn.Sequential(nn.Linear(2 * width, width), nn.Tanh(), nn.Linear(width, config.most + 1))
        self.attention_paths = {"cross": ["attention"]}

    def encode(self, points: Tensor, lengths: Tensor) -> Tensor:
        encoded: Tensor = self.encoder(points, lengths)
        return encoded

    def log_probs(self, encoded: Tensor, lengths: Tensor, said: Tensor, allowed: Tensor) -> Tensor:
        return self._said(encoded, lengths, self.decoder(self._words(said))[0], allowed)

    def step(
        self, encoded: Tensor, lengths: Tensor, said: Tensor, state: Any, allowed: Tensor
    ) -> tuple[Tensor, Any]:
        states, state = self.decoder(self._words(said.unsqueeze(1)), state)
        return self._said(encoded, lengths, states, allowed.unsqueeze(1)).squeeze(1), state

    def _words(self, said: Tensor) -> Tensor:
        most = self.config.most
        words: Tensor = self.embed(torch.where(said < 0, most + 1, said.clamp(max=most)))
        return words

    def _said(self, encoded: Tensor, lengths: Tensor, states: Tensor, allowed: Tensor) -> Tensor:
        context = self.attention(states, encoded, mask=Lengths(lengths)).context
        scores: Tensor = self.read(torch.cat((states, context), -1))  # (b, k, 1 + most)
        size, known = allowed.shape[-1], self.config.most + 1
        scores = scores[..., :size]
        if size > known:  # positions without a word
            scores = torch.nn.functional.pad(scores, (0, size - known), value=HIDDEN)
        hidden = ~allowed
        hidden = hidden & ~hidden.all(-1, keepdim=True)
        return scores.masked_fill(hidden, -torch.inf).log_softmax(-1)
