"""From upper bounds to the keys that can have weight: a threshold that only rises, exact scores of the rest.

The threshold of a sparse map on some of the keys is a lower bound of that on all of them. It is found on the
keys with the best bounds; a key whose bound is below it has weight 0.
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.common.row_loops import exactly, inlined
from regard.kernels.common.simd import (
    above,
    first_bit,
    fma,
    get,
    larger,
    load,
    prefetch,
    put_totals,
    splat,
    width,
    zeros,
)
from regard.kernels.common.simd import store as store_vector
from regard.kernels.decoding.byte_vectors import where_above

LANES = 32
STEPS = 60  # of Newton's method, at most
AHEAD = 16  # keys that are fetched before they are multiplied


@compiled
def score_places(query: Any, row: int, keys: Any, base: int, places: Any, count: int, scores: Any) -> None:
    """Scores of the keys at places[:count], in float32; up to three more are written behind them.

    Key j is at keys[base + j · d].
    """
    d, w = query.shape[1], width(query)
    q = row * d
    for e in range(min(count, AHEAD)):
        for i in range(0, d, 2 * w):
            prefetch(keys, base + places[e] * d + i)
    for e in range(0, count, 4):
        for ahead in range(e + AHEAD, min(e + AHEAD + 4, count)):
            for i in range(0, d, 2 * w):
                prefetch(keys, base + places[ahead] * d + i)
        last = count - 1
        k0, k1 = base + places[e] * d, base + places[min(e + 1, last)] * d
        k2, k3 = base + places[min(e + 2, last)] * d, base + places[min(e + 3, last)] * d
        a = b = c = f = zeros(query)
        for i in range(0, d, w):
            x = load(query, q + i)
            a, b = fma(x, load(keys, k0 + i), a), fma(x, load(keys, k1 + i), b)
            c, f = fma(x, load(keys, k2 + i), c), fma(x, load(keys, k3 + i), f)
        put_totals(scores, e, a, b, c, f)


@exactly
def apart(score: Any, top: float) -> float:
    """score − top, in this order."""
    return np.float64(score) - top


@compiled
def threshold(scores: Any, count: int, half: float, low: float) -> Any:
    """(max θ, τ) with Σ [h(θ − max θ) − τ]₊^(1/h) = 1 of scores[:count], by Newton's method from below.

    `low` is a score that is below the threshold max θ + τ/h, even after rounding.

    The sum is convex in τ and falls (h ≤ 1), so that no step passes the root but by rounding.
    """
    top = scores[0]
    for e in range(1, count):
        top = max(top, scores[e])
    high = np.float64(top)
    t = max(-1.0, (low - high) * half)
    for _ in range(STEPS):
        f, g = 0.0, 0.0
        if half == 0.5:
            for e in range(count):
                x = apart(apart(scores[e], high) * 0.5, t)
                x = max(x, 0.0)
                f += x * x
                g += x
            g *= 2.0
        elif half == 1.0:
            for e in range(count):
                x = apart(apart(scores[e], high), t)
                f += max(x, 0.0)
                g += 1.0 if x > 0.0 else 0.0
        else:
            for e in range(count):
                x = apart(apart(scores[e], high) * half, t)
                if x > 0.0:
                    y = x ** (1.0 / half - 1.0)
                    f += x * y
                    g += y / half
        move = (f - 1.0) / g
        if not move > 1e-11:
            break
        t += move
    return high, t


@compiled
def kth_largest(x: Any, count: int, k: int) -> Any:
    """The k-th largest of x[:count], which is put into another order."""
    low, high, k = 0, count - 1, k - 1
    while low < high:
        pivot, i, j = x[(low + high) >> 1], low, high
        while i <= j:
            while x[i] > pivot:
                i += 1
            while x[j] < pivot:
                j -= 1
            if i <= j:
                x[i], x[j] = x[j], x[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return x[k]


@inlined
def floor_of(scores: Any, count: int, half: float, k: int, low: float, work: Any) -> Any:
    """The threshold of the map on these scores alone: of the k-th largest, or that of entmax, as a score."""
    if k == 0:
        top, tau = threshold(scores, count, half, low)
        return top + tau / half
    if count < k:
        return -np.inf
    for e in range(count):
        work[e] = scores[e]
    return np.float64(kth_largest(work, count, k))


@inlined
def best_of_lanes(bounds: Any, lo: int, hi: int, places: Any) -> int:
    """Places of the largest bound in each of 32 lanes, or of all keys if there are fewer: how many."""
    if hi - lo < LANES:
        for j in range(lo, hi):
            places[j - lo] = j
        return hi - lo
    a, b, c, d = load(bounds, lo), load(bounds, lo + 8), load(bounds, lo + 16), load(bounds, lo + 24)
    p = q = r = s = splat(places, lo)
    for j in range(lo + LANES, hi - LANES + 1, LANES):
        here = splat(places, j)
        x, y = load(bounds, j), load(bounds, j + 8)
        p, q = where_above(x, a, here, p), where_above(y, b, here, q)
        a, b = larger(x, a), larger(y, b)
        x, y = load(bounds, j + 16), load(bounds, j + 24)
        r, s = where_above(x, c, here, r), where_above(y, d, here, s)
        c, d = larger(x, c), larger(y, d)
    store_vector(places, 0, p)
    store_vector(places, 8, q)
    store_vector(places, 16, r)
    store_vector(places, 24, s)
    for lane in range(LANES):
        places[lane] += lane
    return LANES


@inlined
def select_above(bounds: Any, lo: int, hi: int, low: Any, places: Any) -> int:
    """The places from lo to hi with a bound above `low`: how many."""
    count, floors = 0, splat(bounds, low)
    whole = hi - (hi - lo) % 32
    for j in range(lo, whole, 32):
        bits = above(load(bounds, j), floors) | (above(load(bounds, j + 8), floors) << 8)
        bits |= above(load(bounds, j + 16), floors) << 16
        bits |= above(load(bounds, j + 24), floors) << 24
        while bits != 0:
            places[count] = j + first_bit(bits)
            bits &= bits - 1
            count += 1
    for j in range(whole, hi):
        if not get(bounds, j) <= low:
            places[count] = j
            count += 1
    return count
