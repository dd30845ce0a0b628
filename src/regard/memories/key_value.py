"""The key/value cache: what a decoder has already projected.

It grows by appending and never rewrites what it has handed out, so what was attended at an earlier step can
still be looked at. Without gradients it writes into spare room at the end of a buffer; with them it joins
tensors, so that the graph is kept.
"""

import torch
from torch import Tensor

from regard.core.errors import ShapeError


class KeyValue:
    """Keys (..., n, d_k) and values (..., n, d_v) so far; with grows=False the first ones, reused."""

    def __init__(self, *, grows: bool = True):
        self.grows = grows
        self._keys: Tensor | None = None  # handed out as they are, or a buffer with room to spare
        self._values: Tensor | None = None
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def keys(self) -> Tensor:
        """(..., n, d_k)."""
        return _upto(self._keys, self._n)

    @property
    def values(self) -> Tensor:
        """(..., n, d_v)."""
        return _upto(self._values, self._n)

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys (..., k, d_k) and values (..., k, d_v); all so far come back."""
        if self._keys is not None and (
            keys.shape[:-2] != self._keys.shape[:-2] or keys.shape[-1] != self._keys.shape[-1]
        ):
            raise ShapeError(
                f"keys must continue {tuple(self.keys.shape)} in all axes but the last but one; "
                f"got {tuple(keys.shape)}."
            )
        self._keys, self._values = _joined(self._keys, keys, self._n), _joined(self._values, values, self._n)
        self._n += keys.shape[-2]
        return self.keys, self.values

    def select(self, index: Tensor) -> None:
        """Keep these rows of the first axis, in this order: what a beam does after each step."""
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self.keys.index_select(0, index), self.values.index_select(0, index)


def _upto(buffer: Tensor | None, n: int) -> Tensor:
    if buffer is None:
        raise RuntimeError("the cache is empty: nothing has been appended yet.")
    if buffer.shape[-2] == n:
        return buffer
    return buffer.data[
        ..., :n, :
    ]  # .data: writing the room behind it later does not count as a change of this


def _joined(buffer: Tensor | None, new: Tensor, n: int) -> Tensor:
    if buffer is None:
        return new
    if torch.is_grad_enabled() and (buffer.requires_grad or new.requires_grad):
        return torch.cat([_upto(buffer, n), new], -2)
    need = n + new.shape[-2]
    if (
        buffer.shape[-2] < need or buffer.shape[-2] == n
    ):  # full: it may be somebody's own tensor, so leave it alone
        room = torch.empty(
            *buffer.shape[:-2], max(2 * need, 32), buffer.shape[-1], dtype=buffer.dtype, device=buffer.device
        )
        room[..., :n, :] = buffer[..., :n, :]
        buffer = room
    buffer[..., n:need, :] = new
    return buffer
