"""One step of decoding: a few queries attend to many keys, which stand where the cache has put them.

    θⱼ = q·kⱼ + b(j − i)        p = map(θ)        z = Σⱼ pⱼvⱼ

The keys are read once for all queries that share them (grouped heads), by their offset in memory: nothing is
copied, and half precision is widened as it is read. They are taken in chunks, which threads share out; who
finishes the last chunk of a group ends it.

Softmax: each chunk has its own maximum, sum and context, Milakov & Gimelshein (2018), arXiv:1805.02867. So
keys and values are read once. Sparsemax and 1.5-entmax read the values of their support alone.
"""

from functools import cache
from typing import Any

import numpy as np
import torch
from numba.np.numpy_support import carray

from regard.kernels.common.native import callback, floats, integers, stored
from regard.kernels.common.row_loops import inlined, largest
from regard.kernels.common.simd import arrive
from regard.kernels.decoding.step_arguments import INTEGERS, REALS
from regard.kernels.decoding.step_ends import CHUNK, end_softmax, end_sparse, exponentials
from regard.kernels.decoding.step_loops import add_values, score

TOGETHER = 8  # queries that are scored in one pass over the keys
BLOCK = 32  # keys whose values are summed together
ROOM = 64  # numbers behind a list of candidates that may be written to


@cache
def compiled_step(kind: torch.dtype) -> Any:
    """The kernel for keys of this kind; it is called with the address of `Arguments`."""
    return callback(step, INTEGERS, REALS, kind)


@inlined
def add_table(theta: Any, table: Any, first: int) -> None:
    """Add to score j column first + j of a table, or its first or last where it has none."""
    last = len(table) - 1
    for j in range(len(theta)):
        theta[j] += table[min(max(first + j, 0), last)]


def step(struct: Any) -> None:
    """Context (rows, d_v) of query (rows, d), by as many threads as call it: see `step_arguments`.

    They share out pieces: chunk c of group g. A group has up to TOGETHER rows, with the same keys and values.
    """
    args = carray(struct, 1)[0]
    kind, rows, d, d_v, chunks = args.kind, args.rows, args.d, args.d_v, args.chunks
    count, half, key_step, value_step = args.groups_in_all, args.half, args.key_step, args.value_step
    query = carray(floats(args.query, kind), (rows, d))
    keys, values = carray(stored(args.keys, kind), (1,)), carray(stored(args.values, kind), (1,))
    groups = carray(integers(args.groups, kind), (count, 4))
    counters = carray(integers(args.counters, kind), (count + 1,))
    lo, hi = carray(integers(args.lo, kind), (rows,)), carray(integers(args.hi, kind), (rows,))
    sink, column = carray(floats(args.sink, kind), (rows,)), carray(integers(args.first, kind), (rows,))
    table = carray(floats(args.table, kind), (rows, args.columns))
    theta = carray(floats(args.theta, kind), (rows, args.n + 4))
    tops, sums = (
        carray(floats(args.tops, kind), (rows, chunks)),
        carray(floats(args.sums, kind), (rows, chunks)),
    )
    parts = carray(floats(args.parts, kind), (rows, chunks, d_v))
    context = carray(floats(args.context, kind), (rows, d_v))
    some, places = np.empty(0, sink.dtype), np.empty(0, np.int64)
    own, q = np.empty((TOGETHER, CHUNK + 4), sink.dtype), np.empty((TOGETHER, d), sink.dtype)
    while True:
        piece = arrive(counters, count)
        if piece >= count * chunks:
            return
        g, c = piece // chunks, piece % chunks
        r, end, first_key, first_value = groups[g, 0], groups[g, 1], groups[g, 2], groups[g, 3]
        low, high = lo[r], hi[r]
        for x in range(r, end):
            low, high = min(low, lo[x]), max(high, hi[x])
        low = max(low - low % 4, c * CHUNK)  # a chunk that begins so writes nothing into the next
        high = min(high, (c + 1) * CHUNK, args.n)  # a mask may say more than there is
        if low < high:
            for x in range(r, end):
                for i in range(d):
                    q[x - r, i] = query[x, i] * args.scale
            at = first_key + low * key_step
            if half == 0.0:
                score(q, 0, end - r, keys, at, key_step, high - low, own, 0, 0)
            else:
                score(q, 0, end - r, keys, at, key_step, high - low, theta, r, low)
        for row in range(r, end):
            first, last = max(low, lo[row]), min(high, hi[row])
            tops[row, c], sums[row, c] = -np.inf, 0
            if first < last:
                seen = theta[row, first:last] if half != 0.0 else own[row - r, first - low : last - low]
                if args.columns > 0:
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
                        add_values(
                            own, (row - r) * (CHUNK + 4) + first - low, last - first, values,
                            first_value + first * value_step, value_step, parts, (row * chunks + c) * d_v,
                            d_v,
                        )  # fmt: skip
        if arrive(counters, g) == chunks - 1:
            if half != 0.0 and len(some) == 0:
                some, places = np.empty(args.n + ROOM, sink.dtype), np.empty(args.n + ROOM, np.int64)
            for row in range(r, end):
                if half == 0.0:
                    end_softmax(tops[row], sums[row], parts[row], sink[row], chunks, context[row])
                else:
                    end_sparse(
                        theta[row], tops[row], sink[row], chunks, lo[row], min(hi[row], args.n), half, values,
                        first_value, value_step, some, places, context[row],
                    )  # fmt: skip
