"""The backward pass of sparse attention, on the supports alone.

    dpⱼ = vⱼ·dz        dθ = (diag(s) − ssᵀ/Σs) dp        dq = Σⱼ dθⱼkⱼ        dkⱼ += dθⱼq        dvⱼ += pⱼdz

with s = 1 for sparsemax and √p for 1.5-entmax. What is added to a score has the score's gradient; dropout
multiplies dp and p by what it multiplied p by; under a cap dθ is multiplied by 1 − tanh²; a sink has dp = 0.

Slices that share keys or values are one component, and a part is some rows of all slices of a component. Each
component and part has one thread at a time, and sums of its own.
"""

from math import tanh
from typing import Any

import numpy as np

from regard.kernels.attention.dropout_kernel import draw, row_key
from regard.kernels.attention.sparse_lists import AGAIN, BROKEN, GROUP, copy, fill, reach, scratch, stretch
from regard.kernels.attention.sparse_search import search
from regard.kernels.attention.sparse_sums import dots, gather, scatter
from regard.kernels.attention.sparse_terms import SINK, added, column
from regard.kernels.attention.sparse_threshold import finish
from regard.kernels.common.compiled import compiled
from regard.kernels.common.row_loops import inlined
from regard.kernels.common.simd import get, put, take


@inlined
def add_to_terms(part: int, b: int, i: int, j: int, x: float, terms: Any, dterms: Any) -> None:
    """Add dθᵢⱼ = x to the gradients of bias and table that are wanted."""
    dbias, bias_part, bias_at, row, step, dtable, table_part, table_at, table_row, _, _ = dterms
    if dbias.size > 0:
        at = part * bias_part + bias_at[b] + i * row + j * step
        put(dbias, at, get(dbias, at) + x)
    if dtable.size > 0:
        at = part * table_part + table_at[b] + i * table_row + column(i, j, terms[8], terms[7])
        put(dtable, at, get(dtable, at) + x)


@compiled
def backward(
    start: int, stop: int, ticket: Any, query: Any, keys: Any, values: Any, gradient: Any, panels: Any,
    slices: Any, members: Any, view: Any, terms: Any, drop: Any, half: float, kept: Any, dq: Any, dk: Any,
    dv: Any, dterms: Any,
) -> None:  # fmt: skip
    """dq (B, m, d); dk (parts, Bk, n, d) and dv (parts, Bv, n, d_v), zeros before; dterms likewise.

    members (components, slices of each). dterms: dbias (flat), its step along parts, where its slices begin
    (B,), its steps along m and n; the same five of the table; dsink (B, m). What is not wanted has size 0.
    """
    m, d = query.shape[1:]
    n, d_v = values.shape[1:]
    (parts, many_keys), many_values = dk.shape[:2], dv.shape[1]
    share = -(-m // parts)
    lo, hi, mask, mask_at, mask_row, mask_step = view
    floors, begins, sizes, places, weights = kept
    keys_of, values_of = slices
    low, high, threshold, scale = drop
    cap, dsink = terms[9], dterms[10]
    with_terms = dterms[0].size > 0 or dterms[5].size > 0
    lists = scratch(query, n)
    theta, found, stride = lists
    dp, floor = np.empty(GROUP * stride, query.dtype), np.empty(GROUP, query.dtype)
    scores = np.empty(GROUP * stride if cap != 0.0 else 0, query.dtype)
    rows, counts, nexts = np.empty(GROUP, np.int64), np.empty(GROUP, np.int64), np.empty(GROUP, np.int64)
    firsts = np.empty(GROUP, np.int64)
    while True:
        item = take(ticket)
        if item >= len(members) * parts:
            return
        part = item % parts
        for b in members[item // parts]:
            keys_at, values_at = keys_of[b] * n, values_of[b] * n
            dk_at, dv_at = (part * many_keys + keys_of[b]) * n, (part * many_values + values_of[b]) * n
            for first in range(part * share, min(m, (part + 1) * share), GROUP):
                last = min(first + GROUP, m, (part + 1) * share)
                size = 0
                for i in range(first, last):
                    fill(dq, b * m + i, 0.0)
                    if dsink.size > 0:
                        dsink[b, i] = np.nan if sizes[b, i] == BROKEN else 0.0
                    if sizes[b, i] == AGAIN:
                        rows[size], floor[size] = i, floors[b, i]
                        size += 1
                if size > 0:
                    search(b, keys_of[b], rows[:size], query, panels, view, terms, half, floor, counts, lists)
                    for r in range(size):
                        counts[r] = finish(theta, found, r * stride, counts[r], half, floor[r])
                for i in range(first, last):
                    if sizes[b, i] > 0:
                        copy(weights, places, begins[b, i], sizes[b, i], theta, found, size * stride)
                        rows[size], counts[size] = i, sizes[b, i]
                        size += 1
                    elif sizes[b, i] == BROKEN:
                        fill(dq, b * m + i, np.nan)
                        for j in range(lo[b, i], hi[b, i]):
                            if mask.size == 0 or mask[mask_at[b] + i * mask_row + j * mask_step] != 0:
                                fill(dk, dk_at + j, np.nan)
                                fill(dv, dv_at + j, np.nan)
                                add_to_terms(part, b, i, j, np.nan, terms, dterms)
                step = stretch(counts, size, n)
                for r in range(size):
                    at = r * stride
                    firsts[r] = at + (found[at] == SINK)
                    put(dp, at, 0.0)
                    nexts[r] = firsts[r]
                for key in range(step, n + step, step):
                    for r in range(size):
                        e = reach(found, nexts[r], r * stride + counts[r], key, n)
                        row = b * m + rows[r]
                        dots(gradient, row * d_v, values, values_at * d_v, d_v, found, nexts[r], e, dp)
                        if cap != 0.0:
                            dots(query, row * d, keys, keys_at * d, d, found, nexts[r], e, scores)
                        nexts[r] = e
                for r in range(size):
                    i, at, inside, whole = rows[r], r * stride, 0.0, 0.0
                    seed = row_key(b * m + i, low, high)
                    for e in range(at, at + counts[r]):
                        if threshold > 0:
                            put(
                                dp,
                                e,
                                get(dp, e) * scale if draw(get(found, e), seed, high) >= threshold else 0.0,
                            )
                        s = 1.0 if half == 1.0 else get(theta, e)
                        inside += s * get(dp, e)
                        whole += s
                    mean = inside / whole
                    for e in range(at, at + counts[r]):
                        s = get(theta, e)
                        put(dp, e, (1.0 if half == 1.0 else s) * (get(dp, e) - mean))
                        p = s if half == 1.0 else s * s
                        if threshold > 0:
                            p = p * scale if draw(get(found, e), seed, high) >= threshold else 0.0
                        put(theta, e, p)
                    nexts[r] = firsts[r]
                    if firsts[r] > at and dsink.size > 0:
                        dsink[b, i] = dp[at]
                    if cap != 0.0:
                        for e in range(firsts[r], at + counts[r]):
                            slope = tanh((get(scores, e) + added(b, i, get(found, e), terms)) / cap)
                            put(dp, e, get(dp, e) * (1.0 - slope * slope))
                    if with_terms:
                        for e in range(firsts[r], at + counts[r]):
                            add_to_terms(part, b, i, get(found, e), get(dp, e), terms, dterms)
                for key in range(step, n + step, step):
                    for r in range(size):
                        e = reach(found, nexts[r], r * stride + counts[r], key, n)
                        row = b * m + rows[r]
                        gather(dp, found, nexts[r], e, keys, keys_at * d, d, dq, row * d)
                        scatter(dp, found, nexts[r], e, query, row * d, d, dk, dk_at * d)
                        scatter(theta, found, nexts[r], e, gradient, row * d_v, d_v, dv, dv_at * d_v)
                        nexts[r] = e
