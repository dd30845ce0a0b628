"""Attention of one query per hypothesis to keys that stand where they were written, found through ancestors.

    θ_{r,h,i} = q_{r,h} · k_{i,a(i,r),h}          z_{r,h} = Σᵢ p_{r,h,i} v_{i,a(i,r),h}

a(i, r) is the row that was hypothesis r at place i: a beam moves this table, and no key is copied. Keys and
values of fewer heads than the query are shared by neighbouring ones (h becomes h / groups, rounded down).
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.common.row_loops import inlined, largest
from regard.kernels.common.simd import (
    add,
    fma,
    get,
    load,
    put,
    put_totals,
    splat,
    store,
    total,
    width,
    zeros,
)
from regard.kernels.decoding.step_ends import exponentials


@compiled
def scores(start: int, stop: int, query: Any, keys: Any, ancestors: Any, answer: Any) -> None:
    """θ (rows, heads, t) of query (rows, heads, d), keys (room, any rows, kv, d), ancestors (t, rows).

    All but the ancestors must be contiguous.
    """
    _, heads, d = query.shape
    _, every, kv, _ = keys.shape
    groups, t, w = heads // kv, ancestors.shape[0], width(query)  # groups: heads that share keys
    whole = d - d % w
    for row in range(start, stop):
        for i in range(t):
            place = (i * every + ancestors[i, row]) * kv * d
            for h in range(heads):
                q, k = (row * heads + h) * d, place + h // groups * d
                sums = zeros(query)
                for c in range(0, whole, w):
                    sums = fma(load(query, q + c), load(keys, k + c), sums)
                theta = total(sums)
                for c in range(whole, d):
                    theta += get(query, q + c) * get(keys, k + c)
                put(answer, (row * heads + h) * t + i, theta)


@compiled
def contexts(start: int, stop: int, weights: Any, values: Any, ancestors: Any, answer: Any) -> None:
    """z (rows, heads, d) of weights (rows, heads, t) and values (room, any rows, kv, d), contiguous too."""
    _, heads, d = answer.shape
    _, every, kv, _ = values.shape
    groups, t, w = heads // kv, ancestors.shape[0], width(answer)
    whole = d - d % w
    for row in range(start, stop):
        answer[row] = 0
        for i in range(t):
            place = (i * every + ancestors[i, row]) * kv * d
            for h in range(heads):
                p = get(weights, (row * heads + h) * t + i)
                if p != 0:
                    z, v, each = (row * heads + h) * d, place + h // groups * d, splat(answer, p)
                    for c in range(0, whole, w):
                        store(answer, z + c, fma(each, load(values, v + c), load(answer, z + c)))
                    for c in range(whole, d):
                        put(answer, z + c, get(answer, z + c) + p * get(values, v + c))


@compiled
def softmax_contexts(
    start: int, stop: int, query: Any, keys: Any, values: Any, ancestors: Any, answer: Any
) -> None:
    """z (rows, heads, d_v) where p is softmax: all three steps, a row at a time; shapes as above."""
    _, heads, d = query.shape
    _, every, kv, d_v = values.shape
    groups, t = heads // kv, ancestors.shape[0]
    wide = t + 4 - t % 4
    theta, places = np.empty((heads, wide), query.dtype), np.empty(wide, np.int64)
    for row in range(start, stop):
        for i in range(t):
            places[i] = (i * every + ancestors[i, row]) * kv
        for i in range(t, wide):  # read again, and not used
            places[i] = places[t - 1]
        four_scores(query, row * heads * d, keys, places, groups, theta)
        for h in range(heads):
            z, seen = answer[row, h], theta[h, :t]
            z[:] = 0
            top = largest(seen)
            if not abs(top) < np.inf:
                z[:] = 0.0 if top == -np.inf else np.nan
                continue
            whole = exponentials(seen, top)
            theta[h, t:] = 0
            for i in range(t):
                theta[h, i] /= whole
            four_values(theta, h * wide, wide, values, places, h // groups, answer, (row * heads + h) * d_v)


@inlined
def four_scores(query: Any, at: int, keys: Any, places: Any, groups: int, theta: Any) -> None:
    """θ (heads, places) of the query (heads, d) at a flat index: keys are read four at a time."""
    heads, wide = theta.shape
    d, w = keys.shape[-1], width(query)
    whole = d - d % w
    for i in range(0, wide, 4):
        for h in range(heads):
            q, own = at + h * d, h // groups
            k0, k1 = (places[i] + own) * d, (places[i + 1] + own) * d
            k2, k3 = (places[i + 2] + own) * d, (places[i + 3] + own) * d
            a = b = c = e = zeros(query)
            for j in range(0, whole, w):
                x = load(query, q + j)
                a, b = fma(x, load(keys, k0 + j), a), fma(x, load(keys, k1 + j), b)
                c, e = fma(x, load(keys, k2 + j), c), fma(x, load(keys, k3 + j), e)
            to = h * wide + i
            put_totals(theta, to, a, b, c, e)
            for j in range(whole, d):
                y = get(query, q + j)
                put(theta, to, get(theta, to) + y * get(keys, k0 + j))
                put(theta, to + 1, get(theta, to + 1) + y * get(keys, k1 + j))
                put(theta, to + 2, get(theta, to + 2) + y * get(keys, k2 + j))
                put(theta, to + 3, get(theta, to + 3) + y * get(keys, k3 + j))


@inlined
def four_values(p: Any, begin: int, n: int, values: Any, places: Any, own: int, z: Any, to: int) -> None:
    """Add Σᵢ pᵢvᵢ to z, whose d_v numbers begin at a flat index; n is a multiple of four."""
    d, w = values.shape[-1], width(z)
    whole = d - d % w
    for i in range(0, n, 4):
        v0, v1 = (places[i] + own) * d, (places[i + 1] + own) * d
        v2, v3 = (places[i + 2] + own) * d, (places[i + 3] + own) * d
        x0, x1 = get(p, begin + i), get(p, begin + i + 1)
        x2, x3 = get(p, begin + i + 2), get(p, begin + i + 3)
        p0, p1, p2, p3 = splat(z, x0), splat(z, x1), splat(z, x2), splat(z, x3)
        for j in range(0, whole, w):
            one = fma(p0, load(values, v0 + j), load(z, to + j))
            other = fma(p1, load(values, v1 + j), zeros(z))
            one = fma(p2, load(values, v2 + j), one)
            other = fma(p3, load(values, v3 + j), other)
            store(z, to + j, add(one, other))
        for j in range(whole, d):
            y = x0 * get(values, v0 + j) + x1 * get(values, v1 + j)
            y += x2 * get(values, v2 + j) + x3 * get(values, v3 + j)
            put(z, to + j, get(z, to + j) + y)
