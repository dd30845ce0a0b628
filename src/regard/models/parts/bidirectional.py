"""Bidirectional recurrent encoders: each hidden state summarizes the words before and after it.

    h_j = [→h_j; ←h_j]

Bahdanau, Cho & Bengio (2015), arXiv:1409.0473, §3.2. Inputs are packed, in a dtype that the layers support.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.core.errors import ShapeError
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.named_components import check_choice

CELLS = {"lstm": nn.LSTM, "gru": nn.GRU}


class Bidirectional(nn.Module):
    """Embeddings and a bidirectional GRU, `width` per direction."""

    def __init__(self, vocabulary: int, width: int, layers: int, dropout: float):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.dropout = Dropout(dropout)
        between = dropout if layers > 1 else 0.0
        self.gru = nn.GRU(width, width, layers, batch_first=True, bidirectional=True, dropout=between)

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Source (b, n) to annotations (b, n, 2 width) and final states [→h_n; ←h_1] (b, 2 width)."""
        annotations, last = self.gru(pack(self.dropout(self.embed(source)), source, lengths))
        annotations, _ = pad_packed_sequence(annotations, batch_first=True, total_length=source.shape[1])
        return annotations, last[-2:].transpose(0, 1).flatten(1)


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


def pack(x: Tensor, source: Tensor, lengths: Tensor) -> PackedSequence:
    """x (b, n, d) without padding, so that the final states are those of the last real tokens."""
    check_source(source, lengths)
    if not bool(((lengths > 0) & (lengths <= source.shape[1])).all()):
        raise ShapeError(
            f"lengths must be from 1 to n={source.shape[1]}: recurrent encoders read no empty sentence; "
            f"got {lengths.min()} to {lengths.max()}."
        )
    return pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)


def without_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """Turn autocast off on the CPU, where not every machine has a bfloat16 LSTM; inputs must be float32."""
    return torch.autocast("cpu", enabled=False) if x.device.type == "cpu" else nullcontext()


def check_source(source: Tensor, lengths: Tensor) -> None:
    """Require tokens (b, n) and lengths (b,)."""
    if source.dim() != 2 or lengths.shape != source.shape[:1]:
        raise ShapeError(
            "source must be tokens (b, n) and its lengths (b,); "
            f"got {tuple(source.shape)} and {tuple(lengths.shape)}."
        )
