"""What is added to the dot products of sparse attention, for a tile in the search or an entry in backward.

    θᵢⱼ = cap · tanh((qᵢ·kⱼ + biasᵢⱼ + table[clip(j − i − first)]) / cap)        without a cap: its argument

A sink is one more candidate of a row, with a score and no value; its place in the lists is SINK.

Kernels share the tuple `terms`: bias (flat), where its slices begin (B,), its steps along (m, n); table
(flat), where its slices begin (B,), its step along m, its length and `first`; the cap, 0 for none; sink
(B, m). What is not there has size 0.
"""

from math import atanh, tanh
from typing import Any

import numpy as np

from regard.kernels.attention.sparse_tile import TALL
from regard.kernels.common.row_loops import inlined
from regard.kernels.common.simd import get, load, put, splat, store, width

SINK = -1  # the place of a row's sink, before all keys


@inlined
def column(i: int, j: int, first: int, length: int) -> int:
    """The column of a table by distance that query i and key j read."""
    return min(max(j - i - first, 0), length - 1)


@inlined
def added(b: int, i: int, j: int, terms: Any) -> Any:
    """What is added to q·k of query i and key j in slice b."""
    bias, bias_at, row, step, table, table_at, table_row, length, first, _, _ = terms
    x = 0.0
    if bias.size > 0:
        x += get(bias, bias_at[b] + i * row + j * step)
    if table.size > 0:
        x += get(table, table_at[b] + i * table_row + column(i, j, first, length))
    return x


@inlined
def prepare(b: int, rows: Any, t: int, j: int, n: int, terms: Any, extra: Any) -> None:
    """What is added to the scores of tile t of rows and the keys from j on: extra (6, 2w)."""
    bias, bias_at, row, step, table, table_at, table_row, length, first, _, _ = terms
    w = width(extra)
    wide = 2 * w
    for r in range(min(TALL, len(rows) - t * TALL)):
        i, to = rows[t * TALL + r], r * wide
        if table.size > 0:
            at, distance = table_at[b] + i * table_row, j - i - first
            if distance >= 0 and distance + wide <= length:
                store(extra, to, load(table, at + distance))
                store(extra, to + w, load(table, at + distance + w))
            elif distance + wide <= 1 or distance >= length - 1:
                far = splat(extra, get(table, at + (0 if distance < 0 else length - 1)))
                store(extra, to, far)
                store(extra, to + w, far)
            else:
                for x in range(wide):
                    put(extra, to + x, get(table, at + column(i, j + x, first, length)))
        else:
            for x in range(wide):
                put(extra, to + x, 0.0)
        if bias.size > 0:
            at = bias_at[b] + i * row + j * step
            for x in range(min(wide, n - j)):
                put(extra, to + x, get(extra, to + x) + get(bias, at + x * step))


@inlined
def capped(x: Any, cap: float) -> Any:
    """cap · tanh(x / cap); x if there is no cap."""
    return x if cap == 0.0 else cap * tanh(x / cap)


@inlined
def uncapped(floor: Any, cap: float, eps: float) -> Any:
    """A bound below which no capped(x) is above the floor; NaN, which all are above, if there is none."""
    if cap == 0.0:
        return floor
    y = floor / cap - 8 * eps  # so that the rounding of tanh drops no key
    if not y > -1.0:
        return np.nan
    x = cap * atanh(min(y, 1.0 - 4 * eps))
    return x - 8 * eps * abs(x)
