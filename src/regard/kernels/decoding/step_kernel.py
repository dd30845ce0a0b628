"""One step of decoding: a few queries attend to many keys, which stand where the cache has put them.

    θⱼ = q·kⱼ        p = map(θ)        z = Σⱼ pⱼvⱼ

The keys are read once for all queries that share them (grouped heads), by their offset in memory: nothing is
copied. Softmax then reads all values, sparsemax and 1.5-entmax those of their support alone.
"""

from typing import Any

import numpy as np

from regard.kernels.attention.sparse_threshold import finish
from regard.kernels.common.compiled import compiled
from regard.kernels.common.powers import exp2
from regard.kernels.common.row_loops import exactly, inlined, largest
from regard.kernels.common.simd import above, first_bit, fma, get, load, splat, total, width, zeros

TOGETHER = 8  # queries that are scored in one pass over the keys
LOG2_E = 1.4426950408889634
BLOCK = 64  # keys whose values are summed together
ROOM = 64  # numbers behind a list of candidates that may be written to


@inlined
def score(query: Any, first: int, count: int, keys: Any, at: int, step: int, n: int, theta: Any) -> None:
    """θ (count, n) of the queries from `first` on: key j is at keys[at + j · step]. Four at a time."""
    d, w = query.shape[1], width(query)
    whole = d - d % w
    for j in range(0, n, 4):
        k0 = at + j * step
        k1, k2 = (k0 + step, k0 + 2 * step) if j + 2 < n else (k0 + step if j + 1 < n else k0, k0)
        k3 = k0 + 3 * step if j + 3 < n else k0
        for r in range(count):
            q = (first + r) * d
            a = b = c = e = zeros(query)
            for i in range(0, whole, w):
                x = load(query, q + i)
                a, b = fma(x, load(keys, k0 + i), a), fma(x, load(keys, k1 + i), b)
                c, e = fma(x, load(keys, k2 + i), c), fma(x, load(keys, k3 + i), e)
            s, t, u, v = total(a), total(b), total(c), total(e)
            for i in range(whole, d):
                y = get(query, q + i)
                s, t = s + y * get(keys, k0 + i), t + y * get(keys, k1 + i)
                u, v = u + y * get(keys, k2 + i), v + y * get(keys, k3 + i)
            theta[r, j] = s
            if j + 3 < n:
                theta[r, j + 1], theta[r, j + 2], theta[r, j + 3] = t, u, v
            else:
                if j + 1 < n:
                    theta[r, j + 1] = t
                if j + 2 < n:
                    theta[r, j + 2] = u


@exactly
def below(x: Any, top: Any) -> Any:
    """x − top, in this order."""
    return x - top


@inlined
def exponentials(theta: Any, top: Any) -> float:
    """Turn scores into e^(θ − top); their sum."""
    scale, whole = theta.dtype.type(LOG2_E), 0.0
    for begin in range(0, len(theta), 1024):
        block = theta[begin : begin + 1024]
        part = theta.dtype.type(0)
        for j in range(len(block)):
            block[j] = exp2(below(block[j], top) * scale)
            part += block[j]
        whole += part
    return whole


@inlined
def add_values(p: Any, values: Any, at: int, step: int, z: Any) -> None:
    """z += Σⱼ pⱼvⱼ, four values in one pass over z."""
    d, n = len(z), len(p)
    for j in range(0, n - 3, 4):
        first = at + j * step
        v0, v1 = values[first : first + d], values[first + step : first + step + d]
        first += 2 * step
        v2, v3 = values[first : first + d], values[first + step : first + step + d]
        p0, p1, p2, p3 = p[j], p[j + 1], p[j + 2], p[j + 3]
        for i in range(d):
            z[i] += p0 * v0[i] + p1 * v1[i] + p2 * v2[i] + p3 * v3[i]
    for j in range(n - n % 4, n):
        v, w = values[at + j * step : at + j * step + d], p[j]
        for i in range(d):
            z[i] += w * v[i]


@inlined
def support(theta: Any, top: Any, half: float, some: Any, places: Any) -> int:
    """The keys with weight, and √p or p of each (h = ½ or 1); how many there are.

    p = [h(θ − max) − τ]₊^(1/h): no key below max − 1/h has weight.
    """
    n, w, count = len(theta), width(theta), 0
    floor = theta.dtype.type(below(top, 1.0 / half) - 4 * np.finfo(theta.dtype).eps * abs(top))
    floors = splat(theta, floor)
    for j in range(0, n - n % w, w):
        bits = above(load(theta, j), floors)
        while bits != 0:
            place = j + first_bit(bits)
            bits &= bits - 1
            some[count], places[count] = theta[place], place
            count += 1
    for j in range(n - n % w, n):
        if theta[j] > floor:
            some[count], places[count] = theta[j], j
            count += 1
    return int(finish(some, places, 0, count, half, floor))


@compiled
def step(
    start: int, stop: int, query: Any, groups: Any, keys: Any, key_step: int, values: Any, value_step: int,
    lo: Any, hi: Any, half: float, context: Any,
) -> None:  # fmt: skip
    """Context (rows, d_v) of query (rows, d) for the groups start … stop: rows with the same keys and values.

    groups (g, 4): first row, row after the last, and where keys and values begin in memory. Row r sees the
    keys lo[r] ≤ j < hi[r]. half is that of the sparse map (1, ½), or 0 for softmax.
    """
    n = 0
    for g in range(start, stop):
        for r in range(groups[g, 0], groups[g, 1]):
            n = max(n, hi[r])
    theta, sums = np.empty((TOGETHER, n), query.dtype), np.empty(TOGETHER)
    some, places = np.empty(n + ROOM, query.dtype), np.empty(n + ROOM, np.int64)
    for g in range(start, stop):
        end, first_key, first_value = groups[g, 1], groups[g, 2], groups[g, 3]
        for r in range(groups[g, 0], end, TOGETHER):
            count = min(TOGETHER, end - r)
            low, high = lo[r], hi[r]
            for x in range(r, r + count):
                low, high = min(low, lo[x]), max(high, hi[x])
            if low < high:
                score(query, r, count, keys, first_key + low * key_step, key_step, high - low, theta)
            for x in range(count):
                row, z = r + x, context[r + x]
                z[:], sums[x] = 0, 0.0
                if lo[row] >= hi[row]:
                    continue
                seen, at = theta[x, lo[row] - low : hi[row] - low], first_value + lo[row] * value_step
                top = largest(seen)
                if not abs(top) < np.inf:
                    z[:] = 0.0 if top == -np.inf else np.nan
                elif half == 0.0:
                    sums[x] = exponentials(seen, top)
                else:
                    for e in range(support(seen, top, half, some, places)):
                        s, v = some[e], at + places[e] * value_step
                        p = s if half == 1.0 else s * s
                        for i in range(len(z)):
                            z[i] += p * values[v + i]
            if half == 0.0:
                for begin in range(low, high, BLOCK):  # in the first cache for all queries
                    for x in range(count):
                        first, last = max(begin, lo[r + x]), min(begin + BLOCK, hi[r + x])
                        if sums[x] > 0.0 and first < last:
                            p, at = theta[x, first - low : last - low], first_value + first * value_step
                            add_values(p, values, at, value_step, context[r + x])
                for x in range(count):
                    if sums[x] > 0.0:
                        context[r + x] /= query.dtype.type(sums[x])
