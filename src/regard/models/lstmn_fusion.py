"""The LSTMN as a translator: encoder and decoder have tapes, and what is read of the source's is fused in.

    [γ̃_t; α̃_t] = Σ_j p_j [γ_j; α_j],   p = map(θ),   θ_j = vᵀ tanh(W_γ γ_j + W_x x_t + W_γ̃ γ̃_{t−1})

    shallow   the decoder's input is [x_t; γ̃_t]
    deep      r_t = σ(W_r [γ̃_t; x_t]),   c_t = r_t ⊙ α̃_t + f_t ⊙ c̃_t + i_t ⊙ ĉ_t

with γ and α the states and cells on the source's tape, x_t the embedding of the last target token. (One
lecture swaps the words: intra-attention is that over the own tape, inter-attention that over the source's.)

Cheng, Dong & Lapata (2016), "Long Short-Term Memory-Networks for Machine Reading", arXiv:1601.06733, §4.
Departs from the paper: one layer; the same score for both fusions; the decoder begins with an empty tape;
Glorot initialization.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import Attention
from regard.core.shapes import check_rate
from regard.masks import Lengths
from regard.models.entries import register_translator
from regard.models.parts.bidirectional import check_source
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.named_components import check_choice, make_map, make_score, precompute_keys
from regard.models.parts.tape_cell import TapeCell
from regard.models.sequence_model import Rows, SequenceModel, TranslatorConfig, by_hypothesis, by_sentence


@dataclass(frozen=True)
class Config(TranslatorConfig):
    """Configuration of a translator of two LSTMNs."""

    width: int = 192  # of hidden states and embeddings
    dropout: float = 0.2
    fusion: Literal["deep", "shallow"] = "deep"
    score: str = "intra_attention"  # of the attention to the source
    map: str = "softmax"
    learn_alpha: bool = False


@dataclass(frozen=True, eq=False)
class Memory(Rows):
    """The tape of the source."""

    keys: Tensor  # (b, n, d_k): γ, as the score has it
    tape: Tensor  # (b, n, 2 width): γ and α
    lengths: Tensor  # (b,)


@dataclass(frozen=True, eq=False)
class State(Rows):
    """The tape of the decoder, and what was attended to last."""

    tape: Tensor  # (r, t, 2 width)
    last: Tensor  # (r, width): h̃
    source: Tensor  # (r, width): γ̃


@register_translator(Config)
class LSTMNFusion(SequenceModel[Memory, State]):
    """Two LSTMNs, the source's tape fused into the decoder's cell or its input."""

    def __init__(self, config: Config):
        super().__init__()
        self.config, width = config, config.width
        self.deep = check_choice("fusion", config.fusion, ("deep", "shallow")) == "deep"
        self.dropout = Dropout(check_rate("dropout", config.dropout))
        maps = [make_map(config.map, learn_alpha=config.learn_alpha) for _ in range(3)]
        self.source, self.target = (
            nn.Embedding(size, width) for size in (config.source_vocabulary, config.target_vocabulary)
        )
        for embedding in (self.source, self.target):
            nn.init.normal_(embedding.weight, std=width**-0.5)
        self.encoder = TapeCell(width, maps[0])
        self.decoder = TapeCell(width, maps[1], width if self.deep else 2 * width)
        self.attention = Attention(make_score(config.score, 2 * width, width), maps[2])
        if self.deep:
            self.W_r = nn.Linear(2 * width, width)
            nn.init.xavier_uniform_(self.W_r.weight)
        self.output = nn.Linear(width, config.target_vocabulary)
        nn.init.xavier_uniform_(self.output.weight)
        self.attention_paths = {"cross": ["attention"], "tape": ["encoder.attention", "decoder.attention"]}

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        check_source(source, lengths)
        x = self._embedded(self.source, source)  # (b, n, width)
        tape, last = x.new_zeros(len(x), 0, 2 * self.config.width), torch.zeros_like(x[:, 0])
        for word in x.unbind(1):
            last, cell = self.encoder.recall(word, tape, last)
            tape = torch.cat([tape, self.encoder(word, last, cell).to(tape.dtype)], 1)
        keys = precompute_keys(self.attention.score, tape[..., : self.config.width])
        return Memory(keys, tape, lengths)

    def start(self, memory: Memory) -> State:
        nothing = memory.tape.new_zeros(len(memory.tape), self.config.width)
        return State(memory.tape[:, :0], nothing, nothing)

    def step(self, tokens: Tensor, state: State, memory: Memory) -> tuple[Tensor, State]:
        hidden, state = self._step(self._embedded(self.target, tokens), state, memory)
        return self.dropout(hidden), state

    def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Tensor:
        memory, parts = self.encode(source, source_lengths), []
        state = self.start(memory)
        for x in self._embedded(self.target, target_in).unbind(1):
            hidden, state = self._step(x, state, memory)
            parts.append(hidden)
        out: Tensor = self.dropout(torch.stack(parts, 1))
        return out

    def vocabulary(self) -> tuple[Tensor, Tensor | None]:
        return self.output.weight, self.output.bias

    def _embedded(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(embedding(tokens) * self.config.width**0.5)
        return embedded

    def _step(self, x: Tensor, state: State, memory: Memory) -> tuple[Tensor, State]:
        """An embedded token x (r, width) to the hidden state (r, width) after it, and the next state."""
        width = self.config.width
        query = by_sentence(torch.cat([x, state.source], -1).unsqueeze(1), len(memory.lengths))
        seen = self.attention(query, memory.keys, memory.tape, mask=Lengths(memory.lengths))
        source, cells = by_hypothesis(seen.context, len(x))[:, 0].chunk(2, -1)  # γ̃, α̃
        if self.deep:
            read, more = x, torch.sigmoid(self.W_r(torch.cat([source, x], -1))) * cells
        else:
            read, more = torch.cat([x, source], -1), None
        last, cell = self.decoder.recall(read, state.tape, state.last)
        new = self.decoder(read, last, cell, more).to(state.tape.dtype)
        return new[:, 0, :width], State(torch.cat([state.tape, new], 1), last, source)
