"""A bidirectional LSTM or GRU over vectors: h_j = [→h_j; ←h_j]."""

from torch import Tensor, nn
from torch.nn.utils.rnn import pad_packed_sequence

from regard.models.parts.named_components import check_choice
from regard.models.parts.packing import pack, without_autocast

CELLS = {"lstm": nn.LSTM, "gru": nn.GRU}


class BidirectionalRNN(nn.Module):
    """A bidirectional LSTM or GRU over vectors of width `inputs`; both directions together have `width`."""

    def __init__(self, inputs: int, width: int, layers: int, dropout: float, cell: str):
        super().__init__()
        if width % 2:
            raise ValueError(f"width must be even, half for each direction; got {width}.")
        kind = CELLS[check_choice("cell", cell, tuple(CELLS))]
        between = dropout if layers > 1 else 0.0
        self.rnn = kind(inputs, width // 2, layers, batch_first=True, bidirectional=True, dropout=between)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """x (b, n, inputs) to hidden states (b, n, width), 0 at padding."""
        with without_autocast(x):
            states, _ = self.rnn(pack(x.to(self.rnn.bias_hh_l0.dtype), x[..., 0], lengths))
        return pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])[0]
