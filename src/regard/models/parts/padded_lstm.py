"""LSTMs over padded sequences: the same states as of packed ones, faster on a CPU.

A forward LSTM never sees what comes after a token, padding included. Backwards, each sequence is turned
around within its own length first, so that padding stays behind it.
"""

import torch
from torch import Tensor, nn

from regard.models.parts.bidirectional import without_autocast


class PaddedLSTM(nn.Module):
    """An LSTM over vectors of width `inputs`; with `both`, one in each direction of half the width."""

    def __init__(self, inputs: int, width: int, *, both: bool = False):
        super().__init__()
        if both and width % 2:
            raise ValueError(f"width must be even, half for each direction; got {width}.")
        each = width // 2 if both else width
        self.onward = nn.LSTM(inputs, each, batch_first=True)
        self.reverse = nn.LSTM(inputs, each, batch_first=True) if both else None
        for name, p in self.named_parameters():
            if "weight_hh" in name:
                for gate in p.data.split(each):
                    nn.init.orthogonal_(gate)
            elif "weight" in name:
                nn.init.xavier_uniform_(p)
            else:
                nn.init.zeros_(p)
                if "bias_ih" in name:
                    p.data[each : 2 * each] = 1.0  # forget gates are open at first

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """x (b, n, inputs) to hidden states (b, n, width), 0 at padding."""
        with without_autocast(x):
            x = x.to(next(self.parameters()).dtype)
            states = self.onward(x)[0]
            if self.reverse is not None:
                turned = within_lengths(x.shape[1], lengths)
                back = self.reverse(taken(x, turned))[0]
                states = torch.cat((states, taken(back, turned)), -1)
        real = torch.arange(x.shape[1], device=x.device) < lengths.unsqueeze(-1)  # (b, n)
        return torch.where(real.unsqueeze(-1), states, 0)


def within_lengths(n: int, lengths: Tensor) -> Tensor:
    """Positions (b, n) that turn each sequence around within its length and leave padding where it is."""
    at = torch.arange(n, device=lengths.device).expand(len(lengths), n)
    back = lengths.unsqueeze(-1) - 1 - at
    return torch.where(back >= 0, back, at)


def taken(x: Tensor, at: Tensor) -> Tensor:
    """x (b, n, d) at the positions (b, m) of each sequence: (b, m, d)."""
    return x.gather(1, at.unsqueeze(-1).expand(*at.shape, x.shape[-1]))
