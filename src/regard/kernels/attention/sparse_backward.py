"""The backward pass of sparse attention, on the supports alone.

    dpⱼ = vⱼ·dz        dθ = (diag(s) − ssᵀ/Σs) dp        dq = Σⱼ dθⱼkⱼ        dkⱼ += dθⱼq        dvⱼ += pⱼdz

with s = 1 for sparsemax and √p for 1.5-entmax.
"""

from typing import Any

import numpy as np

from regard.kernels.attention.sparse_lists import AGAIN, BROKEN, GROUP, copy, fill, reach, scratch, stretch
from regard.kernels.attention.sparse_search import search
from regard.kernels.attention.sparse_sums import dots, gather, scatter
from regard.kernels.attention.sparse_threshold import finish
from regard.kernels.common.compiled import compiled
from regard.kernels.common.simd import get, put, take


@compiled
def backward(
    start: int, stop: int, ticket: Any, query: Any, keys: Any, values: Any, gradient: Any, panels: Any,
    view: Any, half: float, kept: Any, dq: Any, dk: Any, dv: Any,
) -> None:  # fmt: skip
    """dq (B, m, d); dk (parts, B, n, d) and dv (parts, B, n, d_v), zeros before. The parts share the rows.

    On a row's support, dp = Vdz and dθ = Jdp with J = diag(s) − ssᵀ/Σs, where s is 1 for h = 1, √p for h = ½.
    """
    batch, m, d = query.shape
    n, d_v = values.shape[1:]
    parts = dk.shape[0]
    share = -(-m // parts)
    (lo, hi, mask, steps), (floors, begins, sizes, places, weights) = view, kept
    lists = scratch(query, n)
    theta, found, stride = lists
    dp, floor = np.empty(GROUP * stride, query.dtype), np.empty(GROUP, query.dtype)
    rows, counts, nexts = np.empty(GROUP, np.int64), np.empty(GROUP, np.int64), np.empty(GROUP, np.int64)
    while True:
        item = take(ticket)
        if item >= batch * parts:
            return
        b, part = item // parts, item % parts
        base = (part * batch + b) * n  # of this part's dk and dv
        for first in range(part * share, min(m, (part + 1) * share), GROUP):
            last = min(first + GROUP, m, (part + 1) * share)
            size = 0
            for i in range(first, last):
                fill(dq, b * m + i, 0.0)
                if sizes[b, i] == AGAIN:
                    rows[size], floor[size] = i, floors[b, i]
                    size += 1
            if size > 0:
                search(b, rows[:size], query, panels, view, half, floor, counts, lists)
                for r in range(size):
                    counts[r] = finish(theta, found, r * stride, counts[r], half, floor[r])
            for i in range(first, last):
                if sizes[b, i] > 0:
                    at, e, count = size * stride, begins[b, i], sizes[b, i]
                    copy(weights, places, e, count, theta, found, at)
                    rows[size], counts[size] = i, count
                    size += 1
                elif sizes[b, i] == BROKEN:
                    fill(dq, b * m + i, np.nan)
                    for j in range(lo[b, i], hi[b, i]):
                        if mask.size == 0 or mask[b * steps[0] + i * steps[1] + j * steps[2]]:
                            fill(dk, base + j, np.nan)
                            fill(dv, base + j, np.nan)
            step = stretch(counts, size, n)
            for r in range(size):
                nexts[r] = r * stride
            for key in range(step, n + step, step):
                for r in range(size):
                    e = reach(found, nexts[r], r * stride + counts[r], key, n)
                    row = b * m + rows[r]
                    dots(gradient, row * d_v, values, b * n * d_v, d_v, found, nexts[r], e, dp)
                    nexts[r] = e
            for r in range(size):
                at, inside, whole = r * stride, 0.0, 0.0
                for e in range(at, at + counts[r]):
                    s = 1.0 if half == 1.0 else get(theta, e)
                    inside += s * get(dp, e)
                    whole += s
                mean = inside / whole
                for e in range(at, at + counts[r]):
                    s = get(theta, e)
                    put(dp, e, (1.0 if half == 1.0 else s) * (get(dp, e) - mean))
                    put(theta, e, s if half == 1.0 else s * s)
                nexts[r] = at
            for key in range(step, n + step, step):
                for r in range(size):
                    e = reach(found, nexts[r], r * stride + counts[r], key, n)
                    row = b * m + rows[r]
                    gather(dp, found, nexts[r], e, keys, b * n * d, d, dq, row * d)
                    scatter(dp, found, nexts[r], e, query, row * d, d, dk, base * d)
                    scatter(theta, found, nexts[r], e, gradient, row * d_v, d_v, dv, base * d_v)
                    nexts[r] = e
