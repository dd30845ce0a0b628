"""One step of decoding: a few queries attend to many keys, which stand where the cache has put them.

    θⱼ = q·kⱼ + b(j − i)        p = map(θ)        z = Σⱼ pⱼvⱼ

The keys are read once for all queries that share them (grouped heads), by their offset in memory: nothing is
copied. They are taken in chunks, which threads share out; who finishes the last chunk of a group ends it.

Softmax: each chunk has its own maximum, sum and context, Milakov & Gimelshein (2018), arXiv:1805.02867. So
keys and values are read once. Sparsemax and 1.5-entmax read the values of their support alone.
"""

from typing import Any

import numpy as np

from regard.kernels.attention.sparse_threshold import finish
from regard.kernels.common.compiled import compiled
from regard.kernels.common.powers import exp2
from regard.kernels.common.row_loops import exactly, inlined, largest, maximum
from regard.kernels.common.simd import above, arrive, first_bit, load, prefetch, splat, width
from regard.kernels.decoding.step_loops import add_values, score

CHUNK = 1024  # keys
TOGETHER = 8  # queries that are scored in one pass over the keys
LOG2_E = 1.4426950408889634
BLOCK = 32  # keys whose values are summed together
LINE = 16  # numbers that memory brings at once, about
ROOM = 64  # numbers behind a list of candidates that may be written to


@exactly
def below(x: Any, top: Any) -> Any:
    """x − top, in this order."""
    return x - top


@inlined
def exponentials(theta: Any, top: Any) -> Any:
    """Turn the scores of a chunk into e^(θ − top); their sum."""
    scale, whole = theta.dtype.type(LOG2_E), theta.dtype.type(0)
    for j in range(len(theta)):
        theta[j] = exp2(below(theta[j], top) * scale)
        whole += theta[j]
    return whole


@inlined
def add_table(theta: Any, table: Any, first: int) -> None:
    """Add to score j column first + j of a table, or its first or last where it has none."""
    last = len(table) - 1
    for j in range(len(theta)):
        theta[j] += table[min(max(first + j, 0), last)]


@inlined
def candidates(theta: Any, first: int, floor: Any, some: Any, places: Any, count: int) -> int:
    """Append the scores of a chunk above a floor, and their places from `first` on; how many there are."""
    n, w = len(theta), width(theta)
    floors = splat(theta, floor)
    for j in range(0, n - n % w, w):
        bits = above(load(theta, j), floors)
        while bits != 0:
            place = j + first_bit(bits)
            bits &= bits - 1
            some[count], places[count] = theta[place], first + place
            count += 1
    for j in range(n - n % w, n):
        if theta[j] > floor:
            some[count], places[count] = theta[j], first + j
            count += 1
    return count


@inlined
def end_sparse(
    theta: Any, tops: Any, sink: Any, chunks: int, low: int, high: int, half: float, values: Any, at: int,
    step: int, some: Any, places: Any, z: Any,
) -> None:  # fmt: skip
    """Context of the scores theta[low : high], h = ½ or 1, whose values begin at `at`.

    p = [h(θ − max) − τ]₊^(1/h): no key below max − 1/h has weight.
    """
    top = maximum(largest(tops[:chunks]), sink)
    z[:] = 0
    if not abs(top) < np.inf:
        z[:] = 0.0 if top == -np.inf else np.nan
        return
    floor = theta.dtype.type(below(top, 1.0 / half) - 4 * np.finfo(theta.dtype).eps * abs(top))
    some[0], places[0] = sink, -1  # which has no value
    count = 1 if sink > floor else 0
    for c in range(chunks):
        first, last = max(low, c * CHUNK), min(high, (c + 1) * CHUNK)
        if first < last and tops[c] > floor:
            count = candidates(theta[first:last], first, floor, some, places, count)
    support = finish(some, places, 0, count, half, floor)
    for e in range(support):
        for i in range(0, len(z), LINE):
            prefetch(values, at + max(places[e], 0) * step + i)
    for e in range(support):
        s, v = some[e], at + places[e] * step
        p = s if half == 1.0 else s * s
        if places[e] < 0:
            continue
        for i in range(len(z)):
            z[i] += p * values[v + i]


@inlined
def end_softmax(tops: Any, sums: Any, parts: Any, sink: Any, chunks: int, z: Any) -> None:
    """Context of chunks, each with its maximum, its sum of exponentials and its sum of values."""
    scale = tops.dtype.type(LOG2_E)
    top, whole = maximum(largest(tops[:chunks]), sink), 0.0
    z[:] = 0
    if not abs(top) < np.inf:
        z[:] = 0.0 if top == -np.inf else np.nan
        return
    if sink > -np.inf:
        whole += exp2(below(sink, top) * scale)
    for c in range(chunks):
        if sums[c] > 0.0:
            factor = exp2(below(tops[c], top) * scale)
            whole += factor * sums[c]
            for i in range(len(z)):
                z[i] += factor * parts[c, i]
    for i in range(len(z)):
        z[i] /= tops.dtype.type(whole)


@compiled
def step(
    start: int, stop: int, query: Any, groups: Any, chunks: int, keys: Any, key_step: int,
    values: Any, value_step: int, lo: Any, hi: Any, sink: Any, table: Any, column: Any, half: float,
    theta: Any, tops: Any, sums: Any, parts: Any, done: Any, context: Any,
) -> None:  # fmt: skip
    """Context (rows, d_v) of query (rows, d). Piece p = start … stop is chunk p % chunks of a group.

    groups (g, 4): first row, row after the last, and where keys and values begin in memory; a group has at
    most TOGETHER rows, with the same keys and values. Row r sees the keys lo[r] ≤ j < hi[r], and one of score
    sink[r] that has no value. table (rows, L), if L > 0, is added to the scores: to that of key j its column
    j − column[r], or the nearest there is. half is that of the sparse map (1, ½), or 0 for softmax.

    Threads share theta (rows, n + 4, unless softmax), tops and sums (rows, chunks), parts (rows, chunks, d_v,
    for softmax) and done (g,), which is 0 before.
    """
    some, places = np.empty(0, query.dtype), np.empty(0, np.int64)
    own = np.empty((TOGETHER, CHUNK + 4), query.dtype)
    for piece in range(start, stop):
        g, c = piece // chunks, piece % chunks
        r, end, first_key, first_value = groups[g, 0], groups[g, 1], groups[g, 2], groups[g, 3]
        low, high = lo[r], hi[r]
        for x in range(r, end):
            low, high = min(low, lo[x]), max(high, hi[x])
        low = max(low - low % 4, c * CHUNK)  # a chunk that begins so writes nothing into the next
        high = min(high, (c + 1) * CHUNK)
        if low < high:
            if half == 0.0:
                score(query, r, end - r, keys, first_key + low * key_step, key_step, high - low, own, 0, 0)
            else:
                score(
                    query, r, end - r, keys, first_key + low * key_step, key_step, high - low, theta, r, low
                )
        for row in range(r, end):
            first, last = max(low, lo[row]), min(high, hi[row])
            tops[row, c], sums[row, c] = -np.inf, 0
            if first < last:
                seen = theta[row, first:last] if half != 0.0 else own[row - r, first - low : last - low]
                if table.shape[1] > 0:
                    add_table(seen, table[row], first - column[row])
                top = tops[row, c] = largest(seen)
                if half == 0.0:
                    parts[row, c] = 0
                    if abs(top) < np.inf:
                        sums[row, c] = exponentials(seen, top)
        if half == 0.0:
            for begin in range(low, high, BLOCK):  # in the first cache for all queries
                for row in range(r, end):
                    first, last = max(begin, low, lo[row]), min(begin + BLOCK, high, hi[row])
                    if first < last and sums[row, c] > 0:
                        p, at = own[row - r, first - low : last - low], first_value + first * value_step
                        add_values(p, values, at, value_step, parts[row, c])
        if arrive(done, g) == chunks - 1:
            if half != 0.0 and len(some) == 0:
                some, places = (
                    np.empty(theta.shape[1] + ROOM, query.dtype),
                    np.empty(len(theta[0]) + ROOM, np.int64),
                )
            for row in range(r, end):
                if half == 0.0:
                    end_softmax(tops[row], sums[row], parts[row], sink[row], chunks, context[row])
                else:
                    end_sparse(
                        theta[row], tops[row], sink[row], chunks, lo[row], hi[row], half, values, first_value,
                        value_step, some, places, context[row],
                    )  # fmt: skip
