"""The cell of an LSTMN: an LSTM whose state is a weighted sum of all states and cells on a tape.

    [h̃_t; c̃_t] = Σ_{i<t} pᵢ [hᵢ; cᵢ],   p = map(θ),   θᵢ = vᵀ tanh(W_h hᵢ + W_x x_t + W_h̃ h̃_{t−1})
    i, f, o = σ(W [h̃_t; x_t]),   c_t = f ⊙ c̃_t + i ⊙ tanh(W_c [h̃_t; x_t]),   h_t = o ⊙ tanh(c_t)

At the first token the tape is empty, and h̃ and c̃ are 0.

Cheng, Dong & Lapata (2016), "Long Short-Term Memory-Networks for Machine Reading", arXiv:1601.06733, §3.1.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.attention import Attention
from regard.scores import IntraAttention


class TapeCell(nn.Module):
    """One step of an LSTMN of this width over inputs of width `inputs`."""

    def __init__(self, width: int, map: Callable[..., Tensor], inputs: int | None = None):
        super().__init__()
        inputs = width if inputs is None else inputs
        self.width = width
        self.attention = Attention(IntraAttention(inputs + width, width, last=width), map)
        self.gates = nn.Linear(width + inputs, 4 * width)  # input, forget, output, candidate
        nn.init.xavier_uniform_(self.gates.weight)
        nn.init.zeros_(self.gates.bias)
        self.gates.bias.data[width : 2 * width] = 1.0  # remember, unless it is learned not to

    def recall(self, x: Tensor, tape: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """h̃ and c̃ (b, width) of a tape (b, n, 2 width), at an input x (b, inputs) and the last h̃."""
        if not tape.shape[1]:
            return torch.zeros_like(last), torch.zeros_like(last)
        query = torch.cat([x, last], -1).unsqueeze(1)
        h, c = self.attention(query, tape[..., : self.width], tape).context[:, 0].chunk(2, -1)
        return h, c

    def forward(self, x: Tensor, h: Tensor, c: Tensor, more: Tensor | None = None) -> Tensor:
        """[h_t; c_t] (b, 1, 2 width) for the tape, from x, h̃ and c̃; `more` is added to c_t."""
        *gates, candidate = self.gates(torch.cat([h, x], -1)).chunk(4, -1)
        i, f, o = (gate.sigmoid() for gate in gates)
        cell = f * c + i * candidate.tanh()
        cell = cell if more is None else cell + more
        return torch.cat([o * cell.tanh(), cell], -1).unsqueeze(1)
