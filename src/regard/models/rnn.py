"""The recurrent encoder–decoder: the source is encoded as one vector of fixed size.

    c = tanh(W[→h_n; ←h_1])      s_0 = tanh(V c)      s_i = GRU(s_{i−1}, [Ey_{i−1}; c])
    p(y_i | y_{<i}, c) = softmax(W_o maxout(s_i, Ey_{i−1}, c))

It has no attention: c is the bottleneck that attention removes. Quality drops on long sentences, since c does
not grow with them.

Cho et al. (2014), "Learning Phrase Representations using RNN Encoder–Decoder", arXiv:1406.1078; Sutskever,
Vinyals & Le (2014), arXiv:1409.3215.
Departs from the paper: the encoder is bidirectional, so that `bahdanau` differs in the attention alone;
torch's GRU applies its reset gate after the matrix product; Glorot initialization (initial="paper": as in
`bahdanau`'s paper).
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.core.shapes import check_rate
from regard.models.entries import register_translator
from regard.models.parts.bidirectional import Bidirectional
from regard.models.parts.deep_output import DeepOutput
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.initialization import initialize
from regard.models.parts.recurrent_config import RecurrentSizes
from regard.models.sequence_model import Rows, SequenceModel, by_hypothesis


@dataclass(frozen=True)
class Config(RecurrentSizes):
    """Configuration of a recurrent encoder–decoder."""

    width: int = 256  # of hidden states, embeddings and c; the encoder has this width in each direction
    initial: Literal["glorot", "paper"] = "glorot"


@dataclass(frozen=True, eq=False)
class Memory(Rows):
    """The source as one vector."""

    c: Tensor  # (b, width)


@dataclass(frozen=True, eq=False)
class State(Rows):
    """The hidden states of the decoder."""

    s: Tensor  # (r, layers, width)


@register_translator(Config)
class RNN(SequenceModel[Memory, State]):
    """The recurrent encoder–decoder without attention."""

    def __init__(self, config: Config):
        super().__init__()
        self.config, width, layers = config, config.width, config.layers
        dropout = check_rate("dropout", config.dropout)
        self.encoder = Bidirectional(config.source_vocabulary, width, layers, dropout)
        self.sum_up = nn.Linear(2 * width, width)
        self.begin = nn.Linear(width, layers * width)
        self.embed = nn.Embedding(config.target_vocabulary, width)
        self.dropout = Dropout(dropout)
        self.decoder = nn.GRU(
            2 * width, width, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0
        )
        self.deep = DeepOutput(3 * width, width, dropout)
        self.output = nn.Linear(width, config.target_vocabulary)
        initialize(self, config.initial, "bahdanau")

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        _, last = self.encoder(source, lengths)
        return Memory(torch.tanh(self.sum_up(last)))

    def start(self, memory: Memory) -> State:
        return State(torch.tanh(self.begin(memory.c)).unflatten(-1, (-1, self.config.width)))

    def step(self, tokens: Tensor, state: State, memory: Memory) -> tuple[Tensor, State]:
        hidden, state = self._steps(tokens.unsqueeze(-1), state, memory)
        return hidden.squeeze(-2), state

    def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Tensor:
        memory = self.encode(source, source_lengths)
        return self._steps(target_in, self.start(memory), memory)[0]

    def vocabulary(self) -> tuple[Tensor, Tensor | None]:
        return self.output.weight, self.output.bias

    def _steps(self, tokens: Tensor, state: State, memory: Memory) -> tuple[Tensor, State]:
        """Tokens (r, m) to hidden (r, m, width): c is constant, so one GRU call does all steps."""
        y = self.dropout(self.embed(tokens))  # (r, m, width)
        c = by_hypothesis(memory.c, len(y)).unsqueeze(-2).expand(y.shape)
        s, last = self.decoder(torch.cat([y, c], -1), state.s.transpose(0, 1).contiguous())
        return self.deep(s, y, c), State(last.transpose(0, 1))
