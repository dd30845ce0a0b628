"""Attention of one query per hypothesis to keys that stand where they were written, found through ancestors.

    θ_{r,h,i} = q_{r,h} · k_{i,a(i,r),h}          z_{r,h} = Σᵢ p_{r,h,i} v_{i,a(i,r),h}

a(i, r) is the row that was hypothesis r at place i: a beam moves this table, and no key is copied. Keys and
values of fewer heads than the query are shared by neighbouring ones (h becomes h / groups, rounded down).
"""

from typing import Any

from regard.kernels.common.compiled import compiled


@compiled
def scores(start: int, stop: int, query: Any, keys: Any, ancestors: Any, answer: Any) -> None:
    """θ (rows, heads, t) of query (rows, heads, d), keys (room, any rows, kv, d), ancestors (t, rows)."""
    _, heads, d = query.shape
    groups = heads // keys.shape[2]  # heads that share keys
    for row in range(start, stop):
        for i in range(ancestors.shape[0]):
            place = keys[i, ancestors[i, row]]  # (heads / groups, d)
            for h in range(heads):
                q, k = query[row, h], place[h // groups]
                total = query.dtype.type(0)
                for c in range(d):
                    total += q[c] * k[c]
                answer[row, h, i] = total


@compiled
def contexts(start: int, stop: int, weights: Any, values: Any, ancestors: Any, answer: Any) -> None:
    """z (rows, heads, d) of weights (rows, heads, t) and values (room, any rows, kv, d)."""
    _, heads, d = answer.shape
    groups = heads // values.shape[2]
    for row in range(start, stop):
        answer[row] = 0
        for i in range(ancestors.shape[0]):
            place = values[i, ancestors[i, row]]
            for h in range(heads):
                p = weights[row, h, i]
                if p != 0:
                    v, z = place[h // groups], answer[row, h]
                    for c in range(d):
                        z[c] += p * v[c]
