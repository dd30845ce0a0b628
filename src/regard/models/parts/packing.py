"""What torch's recurrent layers need: sequences without their padding, and numbers they can compute with."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from regard.core.errors import ShapeError
from regard.models.sequence_model import check_source


def packed(x: Tensor, source: Tensor, lengths: Tensor) -> PackedSequence:
    """x (b, n, d) without its padding: the last state of each direction is that of the real words."""
    check_source(source, lengths)
    if not bool(((lengths > 0) & (lengths <= source.shape[1])).all()):
        raise ShapeError(
            f"lengths must be from 1 to n={source.shape[1]}: recurrent encoders read no empty sentence; "
            f"got {lengths.min()} to {lengths.max()}."
        )
    return pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)


def exact(x: Tensor) -> AbstractContextManager[Any]:
    """Autocast off on the CPU: torch has no bfloat16 LSTM for every one of them. Inputs are float32 then."""
    return torch.autocast("cpu", enabled=False) if x.device.type == "cpu" else nullcontext()
