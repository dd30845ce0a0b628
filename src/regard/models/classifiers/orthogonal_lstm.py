"""An LSTM whose states are orthogonal to what came before, read from both ends.

    ĥ_t = LSTM(x_t, h_{t−1}, c_{t−1})        h_t = ĥ_t − (ĥ_tᵀ h̄_t / h̄_tᵀ h̄_t) h̄_t        h̄_t = Σ_{i<t} h_i

The state that goes on to the next word is the orthogonal one. States that do not resemble each other cannot
stand in for each other: which one is looked at matters.

Mohankumar et al. (2020), "Towards Transparent and Explainable Attention Models", arXiv:2004.14243, §4.1.
Departs from the paper: from both ends, each with a mean of its own. There is no fast kernel for it: it is
several times slower than torch's LSTM.
"""

import torch
from torch import Tensor, nn

from regard.models.parts.packing import exact


class OrthogonalLSTM(nn.Module):
    """LSTMs over vectors of width `inputs`; both directions together have `width`."""

    def __init__(self, inputs: int, width: int, layers: int, dropout: float):
        super().__init__()
        if width % 2:
            raise ValueError(f"width must be even, half for each direction; got {width}.")
        if layers < 1:
            raise ValueError(f"layers must be at least 1; got {layers}.")
        self.ahead, self.back = (
            nn.ModuleList(nn.LSTMCell(width if layer else inputs, width // 2) for layer in range(layers))
            for _ in range(2)
        )
        self.dropout = nn.Dropout(dropout)  # between layers

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """x (b, n, inputs) to states (b, n, width); those of padding are 0."""
        there = torch.arange(x.shape[1], device=x.device) < lengths.unsqueeze(-1)
        back = torch.where(there, lengths.unsqueeze(-1) - 1 - torch.arange(x.shape[1], device=x.device), 0)
        x = x.to(next(self.parameters()).dtype)
        with exact(x):
            for layer, (one, other) in enumerate(zip(self.ahead, self.back, strict=True)):
                x = self.dropout(x) if layer else x
                turned = one_way(other, _ordered(x, back))  # type: ignore[arg-type]
                x = torch.cat([one_way(one, x), _ordered(turned, back)], -1)  # type: ignore[arg-type]
                x = torch.where(there.unsqueeze(-1), x, 0)
        return x


def one_way(cell: nn.LSTMCell, x: Tensor) -> Tensor:
    """The states (b, n, d) of x (b, n, inputs), each orthogonal to the sum of those before."""
    h = c = before = x.new_zeros(len(x), cell.hidden_size)
    states = []
    for word in x.unbind(1):
        raw, c = cell(word, (h, c))
        long = before.square().sum(-1, keepdim=True)
        along = (raw * before).sum(-1, keepdim=True) / torch.where(long > 0, long, 1)
        h = raw - along * before  # the first has nothing before it
        before = before + h
        states.append(h)
    return torch.stack(states, 1)


def _ordered(x: Tensor, order: Tensor) -> Tensor:
    """x (b, n, d) in another order of its n, (b, n)."""
    return x.gather(1, order.unsqueeze(-1).expand_as(x))
