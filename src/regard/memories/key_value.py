"""The key/value cache: what a decoder has already projected.

It grows by appending and never rewrites what it has handed out, so what was attended at an earlier step can
still be looked at, and a copy can go another way. Without gradients it writes into spare room at the end of a
buffer, which copies share until one of them has taken it; with gradients it joins tensors, so that the graph
is kept.
"""

import copy

import torch
from torch import Tensor

from regard.core.errors import ShapeError

ROOM = 16  # places to spare, at least


class KeyValue:
    """Keys (..., n, d_k) and values (..., n, d_v) so far; with grows=False the first ones, reused."""

    def __init__(self, *, grows: bool = True, clean: bool = False):
        self.grows, self.clean = grows, clean  # clean: what the mask hides is 0 in it already
        self._keys: Tensor | None = None  # handed out as they are, or a buffer with room to spare
        self._values: Tensor | None = None
        self._n = 0
        self._taken = [0]  # places of the buffer that are taken, by this cache or by a copy that shares it

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
        n, need = self._n, self._n + keys.shape[-2]
        if self._keys is None or self._values is None:
            self._keys, self._values, self._taken = keys, values, [need]
        else:
            self._check(keys)
            if torch.is_grad_enabled() and any(
                t.requires_grad for t in (self._keys, self._values, keys, values)
            ):
                self._keys, self._values = (
                    torch.cat([self.keys, keys], -2),
                    torch.cat([self.values, values], -2),
                )
                self._taken = [need]
            else:
                if need > self._keys.shape[-2] or n != self._taken[0]:
                    self._keys, self._values = _roomy(self._keys, n, need), _roomy(self._values, n, need)
                    self._taken = [n]
                self._keys[..., n:need, :], self._values[..., n:need, :] = keys, values
                self._taken[0] = need
        self._n = need
        return self.keys, self.values

    def copy(self) -> "KeyValue":
        """The same keys and values in a cache of its own: what one appends, the other does not have."""
        return copy.copy(self)

    def select(self, index: Tensor) -> None:
        """Keep these rows of the first axis, in this order: what a beam does after each step."""
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._picked(self.keys, index), self._picked(self.values, index)
            self._taken = [self._n]

    def _picked(self, x: Tensor, index: Tensor) -> Tensor:
        """Rows of x (b, ..., n, d); if it grows, with room for one place more, which the next step takes."""
        if not self.grows or (torch.is_grad_enabled() and x.requires_grad):
            return x.index_select(0, index)
        room = torch.empty(
            (len(index), *x.shape[1:-2], self._n + 1, x.shape[-1]), dtype=x.dtype, device=x.device
        )
        torch.index_select(x, 0, index, out=room[..., : self._n, :])
        return room

    def _check(self, keys: Tensor) -> None:
        old = self.keys
        if keys.shape[:-2] != old.shape[:-2] or keys.shape[-1] != old.shape[-1]:
            raise ShapeError(
                f"keys must continue {tuple(old.shape)} in all axes but the last but one; "
                f"got {tuple(keys.shape)}."
            )


def _upto(buffer: Tensor | None, n: int) -> Tensor:
    if buffer is None:
        raise RuntimeError("the cache is empty: nothing has been appended yet.")
    if buffer.shape[-2] == n:
        return buffer
    return buffer.data[..., :n, :]  # .data: writing the room behind it later is no change of this


def _roomy(buffer: Tensor, n: int, need: int) -> Tensor:
    """The first n places of a buffer, with room for those needed and half as many again."""
    size = (*buffer.shape[:-2], need + max(ROOM, need // 2), buffer.shape[-1])
    room = torch.empty(size, dtype=buffer.dtype, device=buffer.device)
    room[..., :n, :] = buffer[..., :n, :]
    return room
