"""The recurrent language model: one state, rewritten at every token.

    plain   h_t = tanh(W_h h_{t−1} + W_e c_t + b)
    gru     r, z = σ(…),     h̃ = tanh(W c_t + r ⊙ (U h_{t−1})),     h_t = (1 − z) ⊙ h̃ + z ⊙ h_{t−1}
    lstm    i, f, o = σ(…),  c_t = f ⊙ c_{t−1} + i ⊙ tanh(…),       h_t = o ⊙ tanh(c_t)

with c_t the embedding of token t. Gates are weights between 0 and 1 over coordinates, as attention weights
are over positions: `gates` shows them.

Mikolov et al. (2010), "Recurrent neural network based language model"; Hochreiter & Schmidhuber (1997), "Long
Short-Term Memory", with the forget gate of Gers et al. (2000); Cho et al. (2014), arXiv:1406.1078.
Departs from the papers: layers of the same width with dropout between them (Zaremba et al. 2014,
arXiv:1409.2329), the output layer tied to the embeddings, the forget gate's bias 1 at first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.entries import register_language_model
from regard.models.language.language_model import RecurrentModel
from regard.models.parts.named_components import check_choice

CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "plain": nn.RNN}
GATES = {"lstm": ("input", "forget", "cell", "output"), "gru": ("reset", "update", "new"), "plain": ()}
OPEN = {"input", "forget", "output", "reset", "update"}  # gates between 0 and 1; the others are candidates


@dataclass(frozen=True)
class Config:
    """Configuration of a recurrent language model."""

    vocabulary: int
    width: int = 256
    layers: int = 2
    cell: Literal["lstm", "gru", "plain"] = "lstm"
    dropout: float = 0.05
    tied: bool = True  # the output layer has the embeddings as its weights


@register_language_model(Config)
class Recurrent(RecurrentModel):
    """An LSTM, a GRU or a plain recurrent network."""

    # Short rows, many of them: each step of a recurrent network computes all rows at once.
    suits: ClassVar[Mapping[str, Any]] = {"steps": 3000, "tokens": 2048, "segment": 64, "rate": 4e-3}

    def __init__(self, config: Config):
        super().__init__(config)
        kind = CELLS[check_choice("cell", config.cell, tuple(CELLS))]
        self.cells = nn.ModuleList(
            kind(config.width, config.width, batch_first=True) for _ in range(config.layers)
        )
        if not config.tied:
            self.output = nn.Linear(config.width, config.vocabulary, bias=False)
            nn.init.zeros_(self.output.weight)  # at first all tokens are as likely
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        if config.cell == "lstm":
            for cell in self.cells:  # remember, unless it is learned not to
                cell.get_parameter("bias_ih_l0").data[config.width : 2 * config.width] = 1.0

    def from_embedded(
        self, embedded: Tensor, state: dict[str, Tensor] | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        x, after = embedded, []
        for number, cell in enumerate(self.cells):
            held = [] if state is None else [state[name] for name in ("h", "c") if name in state]
            before = tuple(part[number].unsqueeze(0) for part in held) or None
            x, last = cell(x, before if before is None or len(before) > 1 else before[0])
            x = self.dropout(x)
            after.append(last if isinstance(last, tuple) else (last,))
        names = ("h", "c")[: len(after[0])]
        return x, {
            name: torch.cat(parts) for name, parts in zip(names, zip(*after, strict=True), strict=True)
        }

    def vocabulary(self) -> tuple[Tensor, Tensor | None]:
        return (self.E.weight if self.config.tied else self.output.weight), self.bias

    @torch.no_grad()
    def gates(self, tokens: Tensor) -> list[dict[str, Tensor]]:
        """The gates of each layer by name, (b, n, width) each, while the model reads tokens (b, n)."""
        names, x, found = GATES[self.config.cell], self.embed(tokens), []
        for cell in cast(list[nn.RNNBase], self.cells):
            states, _ = cell(x)
            (W_x, W_h, b_x, b_h), parts = cell.all_weights[0], max(len(names), 1)
            before = F.pad(states[:, :-1], (0, 0, 1, 0))  # h_{t−1}
            of_input, of_state = (
                F.linear(x, W_x, b_x).chunk(parts, -1),
                F.linear(before, W_h, b_h).chunk(parts, -1),
            )
            every = zip(names, of_input, of_state, strict=False)
            found.append({name: torch.sigmoid(a + b) for name, a, b in every if name in OPEN})
            x = states
        return found
