"""Softmax attention of a few queries to few keys, as of hypotheses to their source.

    θ_{i,j} = s q_i · k_j, j < l        z_i = Σⱼ softmax(θᵢ)ⱼ vⱼ

Keys and values are read where they are, and once for all queries of a head; the context is written as the
layer that joins the heads reads it.
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.common.row_loops import largest
from regard.kernels.decoding.step_ends import exponentials
from regard.kernels.decoding.step_loops import add_values, score


@compiled
def contexts(
    start: int, stop: int, query: Any, keys: Any, values: Any, places: Any, ends: Any, n: int, scale: float,
    answer: Any,
) -> None:  # fmt: skip
    """Context (b, m, heads, d_v) of query (b, m, heads, d), for start ≤ sentence · heads + head < stop.

    Of the first numbers of keys and values, `places` (2, 3) has the steps from a sentence, a head and a key
    to the next; sentence i has ends[i] ≤ n keys.
    """
    _, m, heads, d = query.shape
    d_v = answer.shape[-1]
    q, theta = np.empty((m, d), query.dtype), np.empty((m, n + 4), query.dtype)
    factor, zero = query.dtype.type(scale), answer.dtype.type(0)
    for pair in range(start, stop):
        i, h = pair // heads, pair % heads
        length = min(max(ends[i], 0), n)
        for x in range(m):
            for c in range(d):
                q[x, c] = query[i, x, h, c] * factor
        at_key, at_value = i * places[0, 0] + h * places[0, 1], i * places[1, 0] + h * places[1, 1]
        if length > 0:
            score(q, 0, m, keys, at_key, places[0, 2], length, theta, 0, 0)
        for x in range(m):
            z = answer[i, x, h]
            z[:] = zero
            if length == 0:
                continue
            seen = theta[x, :length]
            top = largest(seen)
            if not abs(top) < np.inf:
                z[:] = 0.0 if top == -np.inf else np.nan
                continue
            whole = exponentials(seen, top)
            add_values(
                theta, x * (n + 4), length, values, at_value, places[1, 2],
                answer, ((i * m + x) * heads + h) * d_v, d_v,
            )  # fmt: skip
            for c in range(d_v):
                z[c] /= whole
