"""The forward pass of sparse attention: supports, and the context gathered from the values of these alone.

θⱼ = q·kⱼ + terms        p = map(θ)        z = Σⱼ pⱼvⱼ
"""

from typing import Any

import numpy as np

from regard.kernels.attention.dropout_kernel import draw, row_key
from regard.kernels.attention.sparse_lists import AGAIN, BROKEN, GROUP, copy, fill, reach, scratch, stretch
from regard.kernels.attention.sparse_search import search
from regard.kernels.attention.sparse_sums import gather
from regard.kernels.attention.sparse_terms import SINK
from regard.kernels.attention.sparse_threshold import finish
from regard.kernels.common.compiled import compiled
from regard.kernels.common.simd import claim, get, put, take


@compiled
def forward(
    start: int, stop: int, ticket: Any, query: Any, panels: Any, values: Any, slices: Any, view: Any,
    terms: Any, drop: Any, half: float, context: Any, room: int, stored: Any, kept: Any,
) -> None:  # fmt: skip
    """Context (B, m, d_v) of query (B, m, d). A group of rows may store GROUP · room entries of its supports.

    Of each row remain: sizes, how many entries (or AGAIN, BROKEN); begins, where; floors, a bound below τ.
    Groups store one after the other: `stored` counts the entries.
    """
    batch, m, _ = query.shape
    n, d = values.shape[1:]
    groups = -(-m // GROUP)
    keys_of, values_of = slices
    low, high, threshold, scale = drop
    floors, begins, sizes, places, weights = kept
    lists = scratch(query, n)
    theta, found, stride = lists
    floor, rows = np.empty(GROUP, query.dtype), np.empty(GROUP, np.int64)
    counts, nexts = np.empty(GROUP, np.int64), np.empty(GROUP, np.int64)
    while True:
        item = take(ticket)
        if item >= batch * groups:
            return
        b, first = item // groups, item % groups * GROUP
        size = min(GROUP, m - first)
        for r in range(size):
            rows[r], floor[r] = first + r, -np.inf
        search(b, keys_of[b], rows[:size], query, panels, view, terms, half, floor, counts, lists)
        used = 0
        for r in range(size):
            i, at = first + r, r * stride
            counts[r] = finish(theta, found, at, counts[r], half, floor[r])
            nexts[r] = at + (counts[r] > 0 and found[at] == SINK)
            fill(context, b * m + i, np.nan if counts[r] == BROKEN else 0.0)
            if room > 0:
                fits = counts[r] <= GROUP * room - used
                begins[b, i], sizes[b, i], floors[b, i] = used, counts[r] if fits else AGAIN, floor[r]
                used += max(sizes[b, i], 0)
        base = claim(stored, used) if used > 0 else 0
        for r in range(size):
            i, at = first + r, r * stride
            if room > 0 and sizes[b, i] > 0:
                begins[b, i] += base
                copy(theta, found, at, counts[r], weights, places, begins[b, i])
            if half != 1.0:
                for e in range(at, at + counts[r]):
                    put(theta, e, get(theta, e) * get(theta, e))
            if threshold > 0:
                key = row_key(b * m + i, low, high)
                for e in range(at, at + counts[r]):
                    put(
                        theta,
                        e,
                        get(theta, e) * scale if draw(get(found, e), key, high) >= threshold else 0.0,
                    )
        step = stretch(counts, size, n)
        for key in range(step, n + step, step):
            for r in range(size):
                e = reach(found, nexts[r], r * stride + max(counts[r], 0), key, n)
                at = (b * m + first + r) * d
                gather(theta, found, nexts[r], e, values, values_of[b] * n * d, d, context, at)
                nexts[r] = e
