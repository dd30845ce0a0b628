"""Which keys of a row can have weight: the search for candidates, with a floor that rises.

Scores are not stored. The τ of some of a row's keys is a lower bound of the τ of all of them, since more keys
can only raise it. So the floor of a row rises while its keys are visited, and few keys are above it. At the
end `sparse_threshold` solves these exactly.

A threshold that rises on the way: Condat (2016), "Fast projection onto the simplex and the l1 ball".
"""

from typing import Any

import numpy as np

from regard.kernels.attention.sparse_lists import BROKEN, GROUP, TILES
from regard.kernels.attention.sparse_terms import SINK, capped, prepare, uncapped
from regard.kernels.attention.sparse_threshold import tighten
from regard.kernels.attention.sparse_tile import TALL, collect_all, collect_many, tile
from regard.kernels.common.compiled import compiled
from regard.kernels.common.row_loops import inlined
from regard.kernels.common.simd import above, count_bits, first_bit, get, load, put, splat, width

FIRST = 64  # candidates before a row gets its first floor


@inlined
def all_hidden(mask: Any, step: int, shown: Any, begins: Any, ends: Any, t: int, j: int, wide: int) -> bool:
    """Whether the mask hides the keys from j on from all rows of tile t."""
    for r in range(t * TALL, (t + 1) * TALL):
        at = get(shown, r)
        for key in range(max(j, get(begins, r)), min(j + wide, get(ends, r))):
            if get(mask, at + key * step) != 0:
                return False
    return True


@compiled
def search(
    b: int, slice: int, rows: Any, query: Any, panels: Any, view: Any, terms: Any, half: float, floors: Any,
    counts: Any, lists: Any,
) -> None:  # fmt: skip
    """Search the given rows of slice b, whose keys are a slice of the panels.

    counts[r] candidates of row r are left in its list. floors are where the rows start, −inf or a bound known
    from before, and where they end.
    """
    (lo, hi, mask, mask_at, mask_row, mask_step), (theta, places, stride) = view, lists
    bias, table, cap, sink = terms[0], terms[4], terms[9], terms[10]
    plain = mask.size == 0 and cap == 0.0
    m, d, w = query.shape[1], query.shape[2], width(query)
    wide, eps = 2 * w, np.finfo(query.dtype).eps
    shift, n = first_bit(wide), panels.shape[1] * wide
    finite = splat(query, np.finfo(query.dtype).max)
    queries, out = np.zeros(GROUP * d, query.dtype), np.empty(TALL * wide, query.dtype)
    extra, bounds = np.zeros(TALL * wide, query.dtype), np.empty(GROUP, query.dtype)
    bits, limits = np.empty(2, np.int64), np.empty(GROUP, np.int64)
    begins, ends, shown = np.zeros(GROUP, np.int64), np.zeros(GROUP, np.int64), np.zeros(GROUP, np.int64)
    spans = np.empty(4 * TILES, np.int64)  # keys that some row of a tile may look at, and that all may
    first, last = n, 0
    for t in range(TILES):
        spans[4 * t], spans[4 * t + 1], spans[4 * t + 2], spans[4 * t + 3] = n, 0, 0, n
    for r in range(GROUP):
        counts[r], limits[r], bounds[r] = 0, FIRST, np.inf
        t = r // TALL
        if r < len(rows):
            i = rows[r]
            begin, end = lo[b, i], hi[b, i]
            if mask.size > 0:
                at = mask_at[b] + i * mask_row
                while begin < end and get(mask, at + begin * mask_step) == 0:
                    begin += 1
                while begin < end and get(mask, at + (end - 1) * mask_step) == 0:
                    end -= 1
                shown[r] = at
            if sink.size > 0:
                score = sink[b, i]
                if not score < np.inf:
                    counts[r], end = BROKEN, begin
                elif score > floors[r]:
                    theta[r * stride], places[r * stride], counts[r] = score, SINK, 1
            begins[r], ends[r], bounds[r] = begin, end, uncapped(floors[r], cap, eps)
            at, to = (b * m + i) * d, t * d * TALL + r % TALL
            for c in range(d):
                put(queries, to + c * TALL, get(query, at + c))
        if begins[r] < ends[r]:
            spans[4 * t], spans[4 * t + 1] = min(spans[4 * t], begins[r]), max(spans[4 * t + 1], ends[r])
            first, last = min(first, begins[r]), max(last, ends[r])
        spans[4 * t + 2] = max(spans[4 * t + 2], begins[r])
        spans[4 * t + 3] = min(spans[4 * t + 3], ends[r])
    for j in range(first // wide * wide, last, wide):
        for t in range(TILES):
            if j >= spans[4 * t + 1] or j + wide <= spans[4 * t]:
                continue
            if mask.size > 0 and all_hidden(mask, mask_step, shown, begins, ends, t, j, wide):
                continue
            if bias.size > 0 or table.size > 0:
                prepare(b, rows, t, j, spans[4 * t + 1], terms, extra)
            if not tile(
                queries, t * TALL * d, panels, (slice * n + j) * d, d, extra, bounds, t * TALL, out, bits
            ):
                continue
            due = False
            found = count_bits(bits[0]) + count_bits(bits[1])
            many = found >= 2 * wide and plain
            if many and j >= spans[4 * t + 2] and j + wide <= spans[4 * t + 3]:
                for x in range(0, TALL * wide, w):
                    many &= above(load(out, x), finite) == 0
            else:
                many = False
            if many:
                for r in range(TALL):
                    row = t * TALL + r
                    if found == TALL * wide:
                        counts[row] = collect_all(out, j, r, counts[row], theta, places, row * stride)
                    else:
                        counts[row] = collect_many(
                            out, j, r, floors[row], counts[row], theta, places, row * stride
                        )
                    due |= counts[row] >= limits[row]
            else:
                for part in range(2):
                    left = bits[part]
                    while left != 0:
                        x = first_bit(left)
                        left &= left - 1
                        row, key = t * TALL + 3 * part + (x >> shift), j + (x & (wide - 1))
                        if key < get(begins, row) or key >= get(ends, row):
                            continue
                        if mask.size > 0 and get(mask, get(shown, row) + key * mask_step) == 0:
                            continue
                        score, count = capped(get(out, part * 3 * wide + x), cap), get(counts, row)
                        if not score < np.inf:
                            counts[row], ends[row], spans[4 * t + 3] = BROKEN, 0, 0
                            continue
                        put(theta, row * stride + count, score)
                        put(places, row * stride + count, key)
                        put(counts, row, count + 1)
                        due |= count + 1 >= get(limits, row)
            if due:
                for row in range(t * TALL, (t + 1) * TALL):
                    count = counts[row]
                    if count >= limits[row]:
                        kept, floors[row] = tighten(theta, places, row * stride, count, half, floors[row])
                        counts[row], limits[row] = kept, 2 * kept + (8 if 2 * kept < count else 2 * kept)
                        bounds[row] = uncapped(floors[row], cap, eps)
