"""Lists of entries, keys with their weight, for a group of rows, and what kernels of sparse attention share.

Kernels share these tuples: `view`, what rows may look at: lo, hi (B, m), mask (flat), where its slices begin
(B,), its steps along (m, n); `lists`, scratch for GROUP rows: theta, places, and the step from row to row;
`kept`, what forward leaves for backward: per row (B, m) floors, begins, sizes, then places and weights of all
entries; `slices`, which slice of keys and of values each slice of queries has, (B,) each; `drop`, the seed of
dropout in two halves, the threshold below which a weight is dropped, and what the others are multiplied by.
"""

from typing import Any

import numpy as np

from regard.kernels.attention.sparse_tile import TALL
from regard.kernels.common.row_loops import inlined
from regard.kernels.common.simd import get, put, width

TILES = 8
GROUP = TILES * TALL  # queries searched together: with 2 vectors of keys they stay in the first cache
AGAIN, BROKEN = -1, -2  # in place of a support's size: to be found again; its scores hold NaN or +inf


@inlined
def stretch(counts: Any, size: int, n: int) -> int:
    """How many keys rows visit at a time: few where supports are large, so that those keys stay near."""
    entries = 1
    for r in range(size):
        entries += max(counts[r], 0)
    step = 24 * n * size // entries + 1  # about 24 entries of each row
    return step if step <= 512 else n


@inlined
def reach(places: Any, start: int, stop: int, key: int, n: int) -> int:
    """Where a row's entries before a key end; they are in order."""
    if key >= n:
        return stop
    while start < stop and get(places, start) < key:
        start += 1
    return start


@inlined
def fill(table: Any, row: int, x: float) -> None:
    """All of one row of a table (..., d) becomes x."""
    d = table.shape[-1]
    for c in range(row * d, (row + 1) * d):
        put(table, c, x)


@inlined
def copy(
    weights: Any, places: Any, at: int, size: int, weights_there: Any, places_there: Any, there: int
) -> None:
    """Copy entries at … at + size to there."""
    for e in range(size):
        put(weights_there, there + e, get(weights, at + e))
        put(places_there, there + e, get(places, at + e))


@inlined
def scratch(array: Any, n: int) -> Any:
    """Lists for GROUP rows of up to n keys; pages never written cost nothing."""
    stride = n + 4 * width(array)
    return np.empty(GROUP * stride, array.dtype), np.empty(GROUP * stride, np.int32), stride
