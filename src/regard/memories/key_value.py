"""The key/value cache: keys and values that a decoder has already projected.

It grows by appending and never overwrites what it has returned, so recorded attention of earlier steps stays
valid, and a copy can continue differently. Without gradients it writes into spare capacity at the end of a
buffer, which copies share until one of them uses it; with gradients it concatenates tensors, which keeps the
autograd graph.
"""

from typing import Protocol, Self

import torch
from torch import Tensor

from regard.backends.key_codes import KeyCodes
from regard.core.errors import ShapeError

ROOM = 16  # least spare capacity, in positions


class Carried(Protocol):
    """A state that is never changed in place."""

    def select(self, index: Tensor) -> "Carried":
        """These rows of the first axis."""
        ...


class KeyValue:
    """Keys (..., n, d_k) and values (..., n, d_v) so far; with grows=False, fixed after the first append."""

    def __init__(self, *, grows: bool = True, clean: bool = False):
        self.grows, self.clean = grows, clean  # clean: masked keys and values are already 0
        self.encoded = False  # whether positions are already in the keys, as MultiHead puts rotary ones there
        self._keys: Tensor | None = None  # exactly n positions, or a buffer with spare capacity
        self._values: Tensor | None = None
        self._n = 0
        self.carried: Carried | None = None  # what an attention keeps beside keys: a recurrent state
        self._taken = [0]  # positions of the buffer used by this cache or by a copy that shares it

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

    @property
    def codes(self) -> tuple[KeyCodes, int, int] | None:
        """Codes of the keys, and between which positions of their buffers these are; None: there are none."""
        return None

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys (..., k, d_k) and values (..., k, d_v); returns all so far."""
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
                held, room = self.reserve(need - n)
                held.narrow(-2, n, need - n).copy_(keys)
                room.narrow(-2, n, need - n).copy_(values)
        self._n = need
        return self.keys, self.values

    def reserve(self, more: int) -> tuple[Tensor, Tensor]:
        """Grow by so many positions, which the caller writes at once, without gradient: both buffers."""
        assert self._keys is not None and self._values is not None
        n, need = self._n, self._n + more
        if need > self._keys.shape[-2] or n != self._taken[0]:
            self._keys, self._values = _roomy(self._keys, n, need), _roomy(self._values, n, need)
            self._taken = [n]
        self._n = self._taken[0] = need
        return self._keys, self._values

    def copy(self) -> Self:
        """An independent cache with the same keys and values."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)  # as copy.copy, which takes ten times as long
        return made

    def select(self, index: Tensor) -> None:
        """Keep these rows of the first axis, in this order, as beam search does after each step."""
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._picked(self.keys, index), self._picked(self.values, index)
            self._taken = [self._n]
        if self.carried is not None:
            self.carried = self.carried.select(index)

    def _picked(self, x: Tensor, index: Tensor) -> Tensor:
        """Rows of x (b, ..., n, d); in a growing cache with capacity for the next position."""
        if not self.grows or (torch.is_grad_enabled() and x.requires_grad):
            return x.index_select(0, index)
        room = torch.empty(
            (len(index), *x.shape[1:-2], self._n + 1, x.shape[-1]), dtype=x.dtype, device=x.device
        )
        torch.index_select(x, 0, index, out=room[..., : self._n, :])
        return room

    def _check(self, keys: Tensor) -> None:
        assert self._keys is not None
        old = self._keys.shape
        if keys.shape[:-2] != old[:-2] or keys.shape[-1] != old[-1]:
            raise ShapeError(
                f"keys must agree with {tuple(self.keys.shape)} in all axes but the last but one; "
                f"got {tuple(keys.shape)}."
            )


def _upto(buffer: Tensor | None, n: int) -> Tensor:
    if buffer is None:
        raise RuntimeError("the cache is empty: nothing has been appended yet.")
    if buffer.shape[-2] == n:
        return buffer
    return buffer.data.narrow(-2, 0, n)  # .data: later writes behind it must not count as in-place changes


def _roomy(buffer: Tensor, n: int, need: int) -> Tensor:
    """The first n positions of a buffer, in one with capacity for `need` and half as many again."""
    size = (*buffer.shape[:-2], need + max(ROOM, need // 2), buffer.shape[-1])
    room = torch.empty(size, dtype=buffer.dtype, device=buffer.device)
    room[..., :n, :] = buffer[..., :n, :]
    return room
