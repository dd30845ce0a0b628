"""The LSTM network with a memory tape: its state is a weighted sum of all earlier states and cells.

    θᵢ = vᵀ tanh(W_h hᵢ + W_x x_t + W_h̃ h̃_{t−1}),   p = map(θ),   [h̃_t; c̃_t] = Σ_{i<t} pᵢ [hᵢ; cᵢ]
    i, f, o = σ(W [h̃_t; x_t]),   c_t = f ⊙ c̃_t + i ⊙ tanh(W_c [h̃_t; x_t]),   h_t = o ⊙ tanh(c_t)

where an LSTM has h_{t−1} and c_{t−1}. The tapes hold h and c; at the first token they are empty, and h̃ and c̃
are 0.

Cheng, Dong & Lapata (2016), "Long Short-Term Memory-Networks for Machine Reading", arXiv:1601.06733, §3.1.
Departs from the paper: the tape holds the last `memory` tokens; gradients stop at the beginning of a segment.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import Attention
from regard.core.shapes import check_rate
from regard.models.entries import register_language_model
from regard.models.language.language_model import LanguageModel
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.named_components import make_map
from regard.scores import IntraAttention


@dataclass(frozen=True)
class Config:
    """Configuration of an LSTMN."""

    vocabulary: int
    width: int = 192
    dropout: float = 0.1
    map: str = "softmax"
    learn_alpha: bool = False
    memory: int = 64  # tokens on the tape


@register_language_model(Config)
class LSTMN(LanguageModel):
    """An LSTM that attends to all its earlier states and cells."""

    carries = True
    segment = 32

    def __init__(self, config: Config):
        super().__init__()
        self.config, width = config, config.width
        check_rate("dropout", config.dropout)
        self.E = nn.Embedding(config.vocabulary, width)
        nn.init.normal_(self.E.weight, std=width**-0.5)
        self.attention = Attention(
            IntraAttention(2 * width, width, last=width), make_map(config.map, learn_alpha=config.learn_alpha)
        )
        self.gates = nn.Linear(2 * width, 4 * width)  # input, forget, output, candidate
        nn.init.xavier_uniform_(self.gates.weight)
        self.gates.bias.data[width : 2 * width] = 1.0
        self.dropout, self.bias = Dropout(config.dropout), nn.Parameter(torch.zeros(config.vocabulary))
        self.attention_paths = {"tape": ["attention"]}

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        embedded: Tensor = self.dropout(self.E(tokens) * self.config.width**0.5)
        return embedded

    def from_embedded(
        self, embedded: Tensor, state: dict[str, Tensor] | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        width, memory, out = self.config.width, self.config.memory, []
        last = embedded.new_zeros(len(embedded), width) if state is None else state["last"][0]
        tape = None if state is None else torch.cat([state["h"], state["c"]], -1).transpose(0, 1)
        for x in embedded.unbind(1):  # (b, width)
            cell = torch.zeros_like(last)
            if tape is not None:
                tape = tape[:, -memory:]
                query = torch.cat([x, last], -1).unsqueeze(1)
                last, cell = self.attention(query, tape[..., :width], tape).context[:, 0].chunk(2, -1)
            *open_, candidate = self.gates(torch.cat([last, x], -1)).chunk(4, -1)
            i, f, o = (gate.sigmoid() for gate in open_)
            cell = f * cell + i * candidate.tanh()
            hidden = o * cell.tanh()
            out.append(hidden)
            new = torch.cat([hidden, cell], -1).unsqueeze(1)
            tape = new if tape is None else torch.cat([tape, new], 1)
        assert tape is not None
        h, c = tape[:, -memory:].transpose(0, 1).chunk(2, -1)
        return self.dropout(torch.stack(out, 1)), {"h": h, "c": c, "last": last.unsqueeze(0)}

    def vocabulary(self) -> tuple[Tensor, Tensor | None]:
        return self.E.weight, self.bias
