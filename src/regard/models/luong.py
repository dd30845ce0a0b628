"""Luong's decoder: attends with the current state; predicts from [context; state].

    h_t = LSTM(h_{t−1}, [Ey_{t−1}; h̃_{t−1}])      c_t = Attention(h_t, h̄)      h̃_t = tanh(W[c_t; h_t])
    p(y_t | y_{<t}, x) = softmax(W_s h̃_t)

Input feeding (h̃_{t−1} as input) tells the decoder about earlier attention decisions; without it, all steps
of a known target are computed in parallel. Attention is global, or local: a window of D keys to each side of
p_t:

    local-m   p_t = t          local-p   p_t = S · σ(vᵀ tanh(W_p h_t)), S source words

In local-p the weights are multiplied by a Gaussian around p_t *after* the map and not normalised again. If
the window lies outside the sentence, all weights are 0 and c_t = 0.

Luong, Pham & Manning (2015), "Effective Approaches to Attention-based Neural Machine Translation",
arXiv:1508.04025.
Departs from the paper: the source is not reversed; Glorot initialization (initial="paper": uniform in ±0.1,
which suits 1,000 units).
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_packed_sequence

from regard.attention import Attended, Attention, attend
from regard.core.shapes import check_rate
from regard.masks import Lengths
from regard.models.entries import register_translator
from regard.models.parts.biases import Biases, History, add_to_history, expected_fertility
from regard.models.parts.bidirectional import pack, without_autocast
from regard.models.parts.copy_mechanism import CopyState, make_copying
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.initialization import initialize
from regard.models.parts.local_attention import LocalMask, ScaledMap, gaussian
from regard.models.parts.named_components import check_choice, make_map, make_score, precompute_keys
from regard.models.parts.recurrent_config import RecurrentConfig
from regard.models.sequence_model import Hidden, Rows, SequenceModel, by_hypothesis, by_sentence


@dataclass(frozen=True)
class Config(RecurrentConfig):
    """Configuration of Luong's model."""

    layers: int = 2
    score: str = "bilinear"
    attention: Literal["global", "local-m", "local-p"] = "global"
    window: int = 10  # D: keys to each side of the centre, for local attention
    input_feeding: bool = True


@dataclass(frozen=True, eq=False)
class Memory(Rows):
    """The hidden states of the encoder, as keys and as values, and its final states."""

    keys: Tensor  # (b, n, d_k)
    values: Tensor  # (b, n, width)
    lengths: Tensor  # (b,)
    h: Tensor  # (b, layers, width)
    c: Tensor  # (b, layers, width)
    copying: CopyState = ()


@dataclass(frozen=True, eq=False)
class State(Rows):
    """The hidden and cell states of the decoder, and its last attentional vector."""

    h: Tensor  # (r, layers, width)
    c: Tensor  # (r, layers, width)
    fed: Tensor  # (r, width): h̃
    t: int = 0
    history: History = ()


@register_translator(Config)
class Luong(SequenceModel[Memory, State]):
    """Stacked LSTMs with global or local attention to the source."""

    def __init__(self, config: Config):
        super().__init__()
        self.config, width, layers = config, config.width, config.layers
        check_choice("attention", config.attention, ("global", "local-m", "local-p"))
        if config.window < 1:
            raise ValueError(f"window must be at least 1; got {config.window}.")
        self.biases, dropout = Biases.of(config.bias), check_rate("dropout", config.dropout)
        between = dropout if layers > 1 else 0.0
        self.dropout = Dropout(dropout)
        self.source = nn.Embedding(config.source_vocabulary, width)
        self.encoder = nn.LSTM(width, width, layers, batch_first=True, dropout=between)
        self.target = nn.Embedding(config.target_vocabulary, width)
        inputs = 2 * width if config.input_feeding else width
        self.decoder = nn.LSTM(inputs, width, layers, batch_first=True, dropout=between)
        self.attention = Attention(
            make_score(config.score, width, width, self.biases.terms()),
            make_map(config.map, learn_alpha=config.learn_alpha),
        )
        if config.attention == "local-p":
            self.W_p, self.v_p = nn.Linear(width, width, bias=False), nn.Linear(width, 1, bias=False)
        self.W = nn.Linear(2 * width, width, bias=False)
        self.output = nn.Linear(width, config.target_vocabulary, bias=False)
        self.attention_paths = {"cross": ["attention"]}
        self.expected = expected_fertility(self.biases, width)
        self.copying = make_copying(
            config.copy, width, width, config.source_vocabulary, config.target_vocabulary
        )
        initialize(self, config.initial, "luong")

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        x = pack(self.dropout(self.source(self.clip_to_vocabulary(source))), source, lengths)
        with without_autocast(source):
            states, (h, c) = self.encoder(x)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=source.shape[1])
        keys = precompute_keys(self.attention.score, states)
        copy_state = self.copy_state(states, source)
        return Memory(keys, states, lengths, h.transpose(0, 1), c.transpose(0, 1), copy_state)

    def start(self, memory: Memory) -> State:
        history = self.biases.start(len(memory.h), memory.keys)
        return State(memory.h, memory.c, torch.zeros_like(memory.h[:, -1]), 0, history)

    def step(self, tokens: Tensor, state: State, memory: Memory) -> tuple[Hidden, State]:
        y = self.dropout(self.target(self.clip_to_vocabulary(tokens))).unsqueeze(-2)  # (r, 1, width)
        hidden, state = self._steps(y, state, memory)
        return self.pointing(self.dropout(hidden), memory.copying, memory.lengths)[:, 0], state

    def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Hidden:
        memory = self.encode(source, source_lengths)
        state, y = (
            self.start(memory),
            self.dropout(self.target(self.clip_to_vocabulary(target_in))),
        )  # (b, m, width)
        parts = []
        for words in y.split(1, -2) if self.config.input_feeding or state.history else [y]:
            hidden, state = self._steps(words, state, memory)
            parts.append(hidden)
        return self.pointing(self.dropout(torch.cat(parts, -2)), memory.copying, memory.lengths)

    def vocabulary(self) -> tuple[Tensor, Tensor | None]:
        return self.output.weight, self.output.bias

    def _steps(self, y: Tensor, state: State, memory: Memory) -> tuple[Tensor, State]:
        """Embedded tokens y (r, m, width), m = 1 with input feeding, to h̃ (r, m, width)."""
        x = torch.cat([y, state.fed.unsqueeze(-2)], -1) if self.config.input_feeding else y
        before = state.h.transpose(0, 1).contiguous(), state.c.transpose(0, 1).contiguous()
        with without_autocast(x):
            h, (last_h, last_c) = self.decoder(x.to(state.h.dtype), before)
        seen, t = self._attend(h, state, memory), state.t + y.shape[-2]
        context = by_hypothesis(seen.context, len(h))
        hidden = torch.tanh(self.W(torch.cat([context, h], -1)))
        history = add_to_history(state.history, seen, len(h))
        return hidden, State(last_h.transpose(0, 1), last_c.transpose(0, 1), hidden[:, -1], t, history)

    def _attend(self, h: Tensor, state: State, memory: Memory) -> Attended:
        """Attend to the source with states h (r, m, width) of steps t to t + m."""
        query, mask, t = by_sentence(h, len(memory.lengths)), Lengths(memory.lengths), state.t
        where = self.biases.place(query, memory.keys, memory.lengths, t, h.shape[-2], state.history)
        if self.config.attention == "global":
            seen: Attended = self.attention(query, memory.keys, memory.values, mask=mask, place=where)
            return seen
        map, reach = self.attention.map, self.config.window
        if self.config.attention == "local-m":
            m = h.shape[-2]
            place = torch.arange(t, t + m, device=h.device, dtype=h.dtype)
            place = place.repeat(query.shape[-2] // max(m, 1)).expand(query.shape[:-1])  # (b, k·m)
        else:
            share = torch.sigmoid(self.v_p(torch.tanh(self.W_p(query)))).squeeze(-1)  # (b, k·m)
            place = memory.lengths.unsqueeze(-1) * share
            map = ScaledMap(map, gaussian(place, memory.keys.shape[-2], reach))
        return attend(
            query,
            memory.keys,
            memory.values,
            score=self.attention.score,
            map=map,
            mask=mask & LocalMask(place, reach),
            place=where,
            owner=self.attention,
        )
