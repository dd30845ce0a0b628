"""The LSTM network with a memory tape: its state is a weighted sum of all earlier states and cells.

    θᵢ = vᵀ tanh(W_h hᵢ + W_x x_t + W_h̃ h̃_{t−1}),   p = map(θ),   [h̃_t; c̃_t] = Σ_{i<t} pᵢ [hᵢ; cᵢ]
    i, f, o = σ(W [h̃_t; x_t]),   c_t = f ⊙ c̃_t + i ⊙ tanh(W_c [h̃_t; x_t]),   h_t = o ⊙ tanh(c_t)

where an LSTM has h_{t−1} and c_{t−1}: `parts/tape_cell.py`. As a translator: `lstmn_fusion.py`.

Cheng, Dong & Lapata (2016), "Long Short-Term Memory-Networks for Machine Reading", arXiv:1601.06733, §3.1.
Departs from the paper: the tape holds the last `memory` tokens; gradients stop at the beginning of a segment.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.models.entries import register_language_model
from regard.models.language.language_model import RecurrentModel
from regard.models.parts.named_components import make_map
from regard.models.parts.tape_cell import TapeCell


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
class LSTMN(RecurrentModel):
    """An LSTM that attends to all its earlier states and cells."""

    suits: ClassVar[Mapping[str, Any]] = {"steps": 2000, "tokens": 1024, "segment": 32}

    def __init__(self, config: Config):
        super().__init__(config)
        self.cell = TapeCell(config.width, make_map(config.map, learn_alpha=config.learn_alpha))
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        self.attention_paths = {"tape": ["cell.attention"]}

    def from_embedded(
        self, embedded: Tensor, state: dict[str, Tensor] | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        width, memory, out = self.config.width, self.config.memory, []
        last, tape = embedded.new_zeros(len(embedded), width), embedded.new_zeros(len(embedded), 0, 2 * width)
        if state is not None:
            last, tape = state["last"][0], torch.cat([state["h"], state["c"]], -1).transpose(0, 1)
        for x in embedded.unbind(1):  # (b, width)
            last, cell = self.cell.recall(x, tape, last)
            tape = torch.cat([tape, self.cell(x, last, cell)], 1)[:, -memory:]
            out.append(tape[:, -1, :width])
        h, c = tape.transpose(0, 1).chunk(2, -1)
        return self.dropout(torch.stack(out, 1)), {"h": h, "c": c, "last": last.unsqueeze(0)}

    def vocabulary(self) -> tuple[Tensor, Tensor | None]:
        return self.E.weight, self.bias
