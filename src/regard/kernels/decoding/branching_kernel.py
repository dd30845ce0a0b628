"""Attention of one query per hypothesis to keys that stand where they were written, found through ancestors.

    θ_{r,h,i} = q_{r,h} · k_{i,a(i,r),h}          z_{r,h} = Σᵢ p_{r,h,i} v_{i,a(i,r),h}

a(i, r) is the row that was hypothesis r at place i: a beam moves this table, and no key is copied. Keys and
values of fewer heads than the query are shared by neighbouring ones (h becomes h / groups, rounded down).
"""

from typing import Any

from regard.kernels.common.compiled import compiled
from regard.kernels.common.simd import fma, get, load, put, splat, store, total, width, zeros


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
