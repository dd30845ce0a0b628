"""The two loops of a decoding step that read memory: scores of keys, sums of values.

Keys are read four at a time, for two or three queries at once where there are so many.
"""

from typing import Any

from regard.kernels.common.row_loops import inlined
from regard.kernels.common.simd import (
    add,
    fma,
    get,
    get_wide,
    load,
    load_wide,
    prefetch,
    put,
    put_totals,
    splat,
    store,
    width,
    zeros,
)

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
                k = load_wide(keys, k0 + i)
                a, f, s = fma(x, k, a), fma(y, k, f), fma(z, k, s)
                k = load_wide(keys, k1 + i)
                b, g, t = fma(x, k, b), fma(y, k, g), fma(z, k, t)
                k = load_wide(keys, k2 + i)
                c, h, u = fma(x, k, c), fma(y, k, h), fma(z, k, u)
                k = load_wide(keys, k3 + i)
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
                k = load_wide(keys, k0 + i)
                a, f = fma(x, k, a), fma(y, k, f)
                k = load_wide(keys, k1 + i)
                b, g = fma(x, k, b), fma(y, k, g)
                k = load_wide(keys, k2 + i)
                c, h = fma(x, k, c), fma(y, k, h)
                k = load_wide(keys, k3 + i)
                e, o = fma(x, k, e), fma(y, k, o)
            put_totals(theta, (row + r) * wide + place + j, a, b, c, e)
            put_totals(theta, (row + r + 1) * wide + place + j, f, g, h, o)
        if count == 1:
            q0 = first * d
            a = b = c = e = zeros(query)
            for i in range(0, whole, w):
                x = load(query, q0 + i)
                a, b = fma(x, load_wide(keys, k0 + i), a), fma(x, load_wide(keys, k1 + i), b)
                c, e = fma(x, load_wide(keys, k2 + i), c), fma(x, load_wide(keys, k3 + i), e)
            put_totals(theta, row * wide + place + j, a, b, c, e)
        if whole < d:
            for r in range(count):
                to, q = (row + r) * wide + place + j, (first + r) * d
                for i in range(whole, d):
                    x = get(query, q + i)
                    put(theta, to, get(theta, to) + x * get_wide(keys, k0 + i))
                    put(theta, to + 1, get(theta, to + 1) + x * get_wide(keys, k1 + i))
                    put(theta, to + 2, get(theta, to + 2) + x * get_wide(keys, k2 + i))
                    put(theta, to + 3, get(theta, to + 3) + x * get_wide(keys, k3 + i))


@inlined
def add_values(p: Any, begin: int, n: int, values: Any, at: int, step: int, z: Any, to: int, d: int) -> None:
    """z += Σⱼ pⱼvⱼ over j < n, four values in one pass over z.

    z is d numbers from the flat index `to` on, p n of them from `begin` on; value j begins at at + j · step.
    """
    w = width(z)
    whole = d - d % w
    for j in range(0, n - n % 4, 4):
        v0 = at + j * step
        v1, v2, v3 = v0 + step, v0 + 2 * step, v0 + 3 * step
        x0, x1, x2, x3 = (
            get(p, begin + j),
            get(p, begin + j + 1),
            get(p, begin + j + 2),
            get(p, begin + j + 3),
        )
        p0, p1, p2, p3 = splat(z, x0), splat(z, x1), splat(z, x2), splat(z, x3)
        for i in range(0, whole, w):
            total = fma(p0, load_wide(values, v0 + i), load(z, to + i))
            other = fma(p1, load_wide(values, v1 + i), zeros(z))
            total = fma(p2, load_wide(values, v2 + i), total)
            other = fma(p3, load_wide(values, v3 + i), other)
            store(z, to + i, add(total, other))
        for i in range(whole, d):
            y = x0 * get_wide(values, v0 + i) + x1 * get_wide(values, v1 + i)
            y += x2 * get_wide(values, v2 + i) + x3 * get_wide(values, v3 + i)
            put(z, to + i, get(z, to + i) + y)
    for j in range(n - n % 4, n):
        add_value(get(p, begin + j), values, at + j * step, z, to, d)


@inlined
def add_value(p: Any, values: Any, at: int, z: Any, to: int, d: int) -> None:
    """z += p v."""
    w = width(z)
    each = splat(z, p)
    for i in range(0, d - d % w, w):
        store(z, to + i, fma(each, load_wide(values, at + i), load(z, to + i)))
    for i in range(d - d % w, d):
        put(z, to + i, get(z, to + i) + p * get_wide(values, at + i))
