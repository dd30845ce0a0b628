"""RNNsearch, the first attention model: before each target word the decoder attends to the source.

    c_i = Attention(s_{i−1}, h)      s_i = GRU(s_{i−1}, [Ey_{i−1}; c_i])      h_j = [→h_j; ←h_j]
    p(y_i | y_{<i}, x) = softmax(W_o maxout(s_i, Ey_{i−1}, c_i)),     s_0 = tanh(W ←h_1)

The query is the previous state s_{i−1}, so the weights can lag one word behind those of `luong`, whose query
is the current state. The score is additive unless another is named; W₁h_j is computed once for all steps.

Bahdanau, Cho & Bengio (2015), "Neural Machine Translation by Jointly Learning to Align and Translate",
arXiv:1409.0473.
Departs from the paper: torch's GRU applies its reset gate after the matrix product; there are as many maxout
units as the state is wide; for scores that need equal widths, the keys are projected to the query's width;
Glorot initialization, which small widths need (initial="paper": as in §B.1).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import Attention
from regard.core.shapes import check_rate
from regard.masks import Lengths
from regard.models.entries import register_translator
from regard.models.parts.biases import Biases, History, add_to_history, expected_fertility
from regard.models.parts.bidirectional import Bidirectional
from regard.models.parts.copy_mechanism import CopyState, make_copying
from regard.models.parts.deep_output import DeepOutput
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.initialization import initialize
from regard.models.parts.named_components import make_map, make_score, precompute_keys
from regard.models.parts.recurrent_config import RecurrentConfig
from regard.models.sequence_model import Hidden, Rows, SequenceModel, by_hypothesis, by_sentence


@dataclass(frozen=True)
class Config(RecurrentConfig):
    """Configuration of RNNsearch; each direction of the encoder has the full width."""


@dataclass(frozen=True, eq=False)
class Memory(Rows):
    """The annotations (hidden states of the encoder), as keys and as values."""

    keys: Tensor  # (b, n, d_k)
    values: Tensor  # (b, n, 2 width)
    lengths: Tensor  # (b,)
    first: Tensor  # (b, width): ←h_1, the final state of the backward GRU
    copying: CopyState = ()


@dataclass(frozen=True, eq=False)
class State(Rows):
    """The hidden states of the decoder."""

    s: Tensor  # (r, layers, width)
    t: int = 0
    history: History = ()


@register_translator(Config)
class Bahdanau(SequenceModel[Memory, State]):
    """RNNsearch: a recurrent encoder–decoder with attention."""

    def __init__(self, config: Config):
        super().__init__()
        self.config, width, layers = config, config.width, config.layers
        self.biases, dropout = Biases.of(config.bias), check_rate("dropout", config.dropout)
        self.encoder = Bidirectional(config.source_vocabulary, width, layers, dropout)
        self.begin = nn.Linear(width, layers * width)
        self.embed = nn.Embedding(config.target_vocabulary, width)
        self.dropout = Dropout(dropout)
        self.attention = Attention(
            make_score(config.score, width, 2 * width, self.biases.terms()),
            make_map(config.map, learn_alpha=config.learn_alpha),
        )
        self.decoder = nn.GRU(
            3 * width, width, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0
        )
        self.deep = DeepOutput(4 * width, width, dropout)
        self.output = nn.Linear(width, config.target_vocabulary)
        self.attention_paths = {"cross": ["attention"]}
        self.expected = expected_fertility(self.biases, 2 * width)
        self.copying = make_copying(
            config.copy, width, 2 * width, config.source_vocabulary, config.target_vocabulary
        )
        initialize(self, config.initial, "bahdanau")

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        annotations, last = self.encoder(self.clip_to_vocabulary(source), lengths)
        keys, first = precompute_keys(self.attention.score, annotations), last[:, self.config.width :]
        return Memory(keys, annotations, lengths, first, self.copy_state(annotations, source))

    def start(self, memory: Memory) -> State:
        s = torch.tanh(self.begin(memory.first)).unflatten(-1, (-1, self.config.width))
        return State(s, 0, self.biases.start(len(s), memory.keys))

    def step(self, tokens: Tensor, state: State, memory: Memory) -> tuple[Hidden, State]:
        y = self.dropout(self.embed(self.clip_to_vocabulary(tokens))).unsqueeze(-2)  # (r, 1, width)
        c, s, state = self._step(y, state, memory)
        return self.pointing(self.deep(s, y, c), memory.copying, memory.lengths)[:, 0], state

    def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Hidden:
        memory = self.encode(source, source_lengths)
        state, y = (
            self.start(memory),
            self.dropout(self.embed(self.clip_to_vocabulary(target_in))),
        )  # (b, m, width)
        steps = []
        for word in y.split(1, -2):
            c, s, state = self._step(word, state, memory)
            steps.append((c, s))
        contexts, states = (torch.cat(parts, -2) for parts in zip(*steps, strict=True))
        return self.pointing(self.deep(states, y, contexts), memory.copying, memory.lengths)

    def vocabulary(self) -> tuple[Tensor, Tensor | None]:
        return self.output.weight, self.output.bias

    def _step(self, y: Tensor, state: State, memory: Memory) -> tuple[Tensor, Tensor, State]:
        """Embedded token y (r, 1, width) to context (r, 1, 2 width), hidden (r, 1, width), next state."""
        query, lengths = by_sentence(state.s[:, -1:], len(memory.lengths)), memory.lengths
        place = self.biases.place(query, memory.keys, lengths, state.t, 1, state.history)
        seen = self.attention(query, memory.keys, memory.values, mask=Lengths(lengths), place=place)
        c = by_hypothesis(seen.context, len(y))
        history = add_to_history(state.history, seen, len(y))
        s, last = self.decoder(torch.cat([y, c], -1), state.s.transpose(0, 1).contiguous())
        return c, s, State(last.transpose(0, 1), state.t + 1, history)
