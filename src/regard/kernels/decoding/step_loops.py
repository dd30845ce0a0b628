"""The two loops of a decoding step that read memory: scores of keys, sums of values.

Keys are read four at a time, for two or three queries at once where there are so many.
"""

from typing import Any

from regard.kernels.common.row_loops import inlined
from regard.kernels.common.simd import fma, get, load, prefetch, put, put_totals, width, zeros

AHEAD = 16  # keys, asked for before they are needed: the machine itself looks no further than a page


@inlined
def score(
    query: Any,
    first: int,
    count: int,
    keys: Any,
    at: int,
    step: int,
    n: int,
    theta: Any,
    row: int,
    place: int,
) -> None:
    """θ of the queries from `first` on, into theta[row : row + count, place : place + n].

    Key j is at keys[at + j · step]. Up to three numbers behind the last may be written.
    """
    d, w, wide = query.shape[1], width(query), theta.shape[1]
    whole = d - d % w
    for j in range(0, n, 4):
        k0 = at + j * step
        k1, k2, k3 = k0 + step, k0 + 2 * step, k0 + 3 * step
        if j + 3 >= n:
            k1, k2, k3 = k1 if j + 1 < n else k0, k2 if j + 2 < n else k0, k0
        for ahead in (k0, k1, k2, k3):
            for i in range(0, d, 2 * w):
                prefetch(keys, ahead + AHEAD * step + i)
        paired = count - 3 if count % 2 and count > 1 else count  # three at once, then pairs
        if paired < count:
            q0, q1, q2 = (first + paired) * d, (first + paired + 1) * d, (first + paired + 2) * d
            a = b = c = e = f = g = h = o = s = t = u = v = zeros(query)
            for i in range(0, whole, w):
                x, y, z = load(query, q0 + i), load(query, q1 + i), load(query, q2 + i)
                k = load(keys, k0 + i)
                a, f, s = fma(x, k, a), fma(y, k, f), fma(z, k, s)
                k = load(keys, k1 + i)
                b, g, t = fma(x, k, b), fma(y, k, g), fma(z, k, t)
                k = load(keys, k2 + i)
                c, h, u = fma(x, k, c), fma(y, k, h), fma(z, k, u)
                k = load(keys, k3 + i)
                e, o, v = fma(x, k, e), fma(y, k, o), fma(z, k, v)
            to = (row + paired) * wide + place + j
            put_totals(theta, to, a, b, c, e)
            put_totals(theta, to + wide, f, g, h, o)
            put_totals(theta, to + 2 * wide, s, t, u, v)
        for r in range(0, paired - 1, 2):
            q0, q1 = (first + r) * d, (first + r + 1) * d
            a = b = c = e = f = g = h = o = zeros(query)
            for i in range(0, whole, w):
                x, y = load(query, q0 + i), load(query, q1 + i)
                k = load(keys, k0 + i)
                a, f = fma(x, k, a), fma(y, k, f)
                k = load(keys, k1 + i)
                b, g = fma(x, k, b), fma(y, k, g)
                k = load(keys, k2 + i)
                c, h = fma(x, k, c), fma(y, k, h)
                k = load(keys, k3 + i)
                e, o = fma(x, k, e), fma(y, k, o)
            put_totals(theta, (row + r) * wide + place + j, a, b, c, e)
            put_totals(theta, (row + r + 1) * wide + place + j, f, g, h, o)
        if count == 1:
            q0 = first * d
            a = b = c = e = zeros(query)
            for i in range(0, whole, w):
                x = load(query, q0 + i)
                a, b = fma(x, load(keys, k0 + i), a), fma(x, load(keys, k1 + i), b)
                c, e = fma(x, load(keys, k2 + i), c), fma(x, load(keys, k3 + i), e)
            put_totals(theta, row * wide + place + j, a, b, c, e)
        if whole < d:
            for r in range(count):
                to, q = (row + r) * wide + place + j, (first + r) * d
                for i in range(whole, d):
                    x = get(query, q + i)
                    put(theta, to, get(theta, to) + x * get(keys, k0 + i))
                    put(theta, to + 1, get(theta, to + 1) + x * get(keys, k1 + i))
                    put(theta, to + 2, get(theta, to + 2) + x * get(keys, k2 + i))
                    put(theta, to + 3, get(theta, to + 3) + x * get(keys, k3 + i))


@inlined
def add_values(p: Any, values: Any, at: int, step: int, z: Any) -> None:
    """z += Σⱼ pⱼvⱼ, four values in one pass over z; value j is at values[at + j · step]."""
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
