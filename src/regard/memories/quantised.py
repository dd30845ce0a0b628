"""A key/value cache with codes beside the keys, for exact sparse decoding that reads few of them.

    kⱼ, vⱼ exact in float32        ĉⱼ (4 or 7 bits), sⱼ, εⱼ with ‖R kⱼ − sⱼ ĉⱼ‖ ≤ εⱼ

It is used as a `KeyValue` is, and answers the same; a step with a sparse map then runs on the certified
backend. A short cache has no codes, nor has one with gradients, in another precision than float32, at widths
other than 32 to 256, or on a machine without AVX2: it is a `KeyValue` then.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.backends.certified import LONG, attend_by_codes, form_of
from regard.backends.key_codes import BLOCK, KeyCodes, can_encode
from regard.core.decoding_counts import Counts
from regard.memories.key_value import ROOM, KeyValue


class Quantised(KeyValue):
    """Keys (..., n, d_k) and values (..., n, d_v) so far; from n = `long` on with codes of `bits` bits."""

    def __init__(self, *, grows: bool = True, clean: bool = False, bits: int = 4, long: int = LONG):
        super().__init__(grows=grows, clean=clean)
        self.bits, self.long = bits, long
        self._first = 0  # positions of the buffer that were forgotten
        self._store: KeyCodes | None = None

    @property
    def keys(self) -> Tensor:
        store = self._store
        return super().keys if store is None else store.shown[0].narrow(-2, self._first, self._n)

    @property
    def values(self) -> Tensor:
        store = self._store
        return super().values if store is None else store.shown[1].narrow(-2, self._first, self._n)

    @property
    def codes(self) -> tuple[KeyCodes, int, int] | None:
        if self._store is None or self._n < self.long:
            return None
        self._store.update(self._first + self._n)
        return self._store, self._first, self._first + self._n

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        store, end = self._store, self._first + self._n
        if store is not None and end == self._taken[0] and store.append(keys, values, end):  # the next token
            n = self._n = self._n + 1
            self._taken[0] = end + 1
            all_keys, all_values = store.shown
            return all_keys.narrow(-2, self._first, n), all_values.narrow(-2, self._first, n)
        need = end + keys.shape[-2]
        tracked = torch.is_grad_enabled() and any(
            t is not None and t.requires_grad for t in (keys, values, self._keys, self._values)
        )
        if self._keys is not None:
            self._check(keys)
        if tracked or need - self._first < self.long or not can_encode(keys, values):
            if store is not None:
                self._keys, self._values, self._taken = self.keys, self.values, [self._n]
                self._store, self._first = None, 0
            return super().append(keys, values)
        if store is None or self._keys is None or need > self._keys.shape[-2] or end != self._taken[0]:
            self._move(keys, values)
            end = self._first + self._n
            need = end + keys.shape[-2]
        assert self._keys is not None and self._values is not None
        self._keys[..., end:need, :], self._values[..., end:need, :] = keys, values
        self._taken[0], self._n = need, need - self._first
        return self.keys, self.values

    def attend(
        self,
        query: Tensor,
        map: Any = "entmax15",
        *,
        scale: float | None = None,
        counts: Counts | None = None,
    ) -> Tensor | None:
        """Context (..., heads, m, d_v) of query (..., heads, m, d), heads a multiple of those of the keys.

        The shortest way to the kernel, all keys visible: what `attend` with this cache does, without its
        checks, and with `counts` what it read. None where the certified backend does not apply.
        """
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        found = self.codes
        return None if found is None else attend_by_codes(*found, query, scale, map, counts)

    def select(self, index: Tensor) -> None:
        store, first, n = self._store, self._first, self._n
        if store is None or self._keys is None or self._values is None:
            super().select(index)
            return
        keys, values = self._keys, self._values
        self._store, self._keys, self._values = None, None, None
        begin = first - first % BLOCK
        groups = int(np.prod(keys.shape[1:-2]))
        rows = (index.numpy()[:, None] * groups + np.arange(groups)).reshape(-1)
        shape = (len(index), *keys.shape[1:-2], first + n - begin + (1 if self.grows else 0))
        self._keys, self._values = (t.new_empty(*shape, t.shape[-1]) for t in (keys, values))
        for new, old in ((self._keys, keys), (self._values, values)):
            new[..., : first + n - begin, :] = old.index_select(0, index)[..., begin : first + n, :]
        self._store = KeyCodes(self._keys, self._values, self.bits)
        self._store.copy_from(store, begin, first + n, rows)
        self._first, self._taken = first - begin, [first - begin + n]

    def crop(self, n: int) -> None:
        """Keep the first n positions, as after tokens that were guessed and refused."""
        if not 0 <= n <= self._n:
            raise ValueError(f"n must be from 0 to {self._n}; got {n}.")
        self._n = n

    def forget(self, count: int) -> None:
        """Forget the first `count` positions; their memory is free when the buffers next grow."""
        if not 0 <= count <= self._n:
            raise ValueError(f"count must be from 0 to {self._n}; got {count}.")
        if self._store is None:
            if self._keys is not None and self._values is not None:
                kept = self.keys[..., count:, :], self.values[..., count:, :]
                self._keys, self._values = kept
                self._taken = [self._n - count]
        else:
            self._first += count
        self._n -= count

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes of keys and values, and of the codes beside them, spare capacity included."""
        if self._keys is None or self._values is None:
            return 0, 0
        exact = sum(t.numel() * t.element_size() for t in (self._keys, self._values))
        return exact, 0 if self._store is None else self._store.nbytes

    def _move(self, keys: Tensor, values: Tensor) -> None:
        """New buffers with capacity for these keys and values, and half as much again."""
        begin, end = self._first - self._first % BLOCK, self._first + self._n
        need = end - begin + keys.shape[-2]
        size = need if self._keys is None and not self.grows else need + max(ROOM, need // 2)
        old, held = self._store, (self._keys, self._values)
        made = [t.new_empty(*t.shape[:-2], size, t.shape[-1]) for t in (keys, values)]
        for new, before in zip(made, held, strict=True):
            if before is not None:
                new[..., : end - begin, :] = before[..., begin:end, :]
        self._keys, self._values = made
        self._store = KeyCodes(self._keys, self._values, self.bits)
        if old is not None:
            self._store.copy_from(old, begin, end)
        self._first, self._taken = self._first - begin, [end - begin]


def cache_for(map: Callable[..., Tensor], *, grows: bool = True, clean: bool = False) -> KeyValue:
    """The cache for an attention with this map: with codes, if the certified backend takes the map."""
    kind = KeyValue if form_of(map) is None else Quantised
    return kind(grows=grows, clean=clean)
