"""A bidirectional LSTM whose hidden states are orthogonal to the mean of the earlier ones.

    ĥ_t = LSTM(x_t, h_{t−1}, c_{t−1})        h_t = ĥ_t − (ĥ_tᵀ h̄_t / h̄_tᵀ h̄_t) h̄_t        h̄_t = Σ_{i<t} h_i

The orthogonal state is passed on to the next step. When hidden states are similar, changing the weights
changes the prediction little; orthogonal states make the weights matter.

Mohankumar et al. (2020), "Towards Transparent and Explainable Attention Models", arXiv:2004.14243, §4.1.
Departs from the paper: bidirectional, each direction orthogonalized separately. It runs step by step in
PyTorch, several times slower than `nn.LSTM`.
"""

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from regard.models.parts.bidirectional import without_autocast


class OrthogonalLSTM(nn.Module):
    """Orthogonal LSTMs over vectors of width `inputs`; both directions together have `width`."""

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
        """x (b, n, inputs) to hidden states (b, n, width), 0 at padding."""
        position, lengths = torch.arange(x.shape[1], device=x.device), lengths.unsqueeze(-1)
        is_real = position < lengths
        reverse = torch.where(is_real, lengths - 1 - position, 0)
        x = x.to(next(self.parameters()).dtype)
        with without_autocast(x):
            cells = zip(self.ahead, self.back, strict=True)
            for layer, (ahead, back) in enumerate(cast("Iterable[tuple[nn.LSTMCell, nn.LSTMCell]]", cells)):
                x = self.dropout(x) if layer else x
                backward = _ordered(orthogonal_states(back, _ordered(x, reverse)), reverse)
                x = torch.cat([orthogonal_states(ahead, x), backward], -1)
                x = torch.where(is_real.unsqueeze(-1), x, 0)
        return x


def orthogonal_states(cell: nn.LSTMCell, x: Tensor) -> Tensor:
    """The hidden states (b, n, d) of x (b, n, inputs), each orthogonal to the sum of earlier ones."""
    h = c = before = x.new_zeros(len(x), cell.hidden_size)
    states = []
    for word in x.unbind(1):
        raw, c = cell(word, (h, c))
        square = before.square().sum(-1, keepdim=True)
        along = (raw * before).sum(-1, keepdim=True) / torch.where(square > 0, square, 1)
        h = raw - along * before  # `before` is 0 at the first step
        before = before + h
        states.append(h)
    return torch.stack(states, 1)


def _ordered(x: Tensor, order: Tensor) -> Tensor:
    """x (b, n, d) with its n positions reordered by indices (b, n)."""
    return x.gather(1, order.unsqueeze(-1).expand_as(x))
