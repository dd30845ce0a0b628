"""Inputs of torch's recurrent layers: packed sequences, in a dtype that the layers support."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from regard.core.errors import ShapeError
from regard.models.sequence_model import check_source


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
