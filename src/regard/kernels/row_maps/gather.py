"""Finding the few keys of a row that matter, by the maxima of groups of four keys.

Group k of a row of n keys has the keys k, k + q, k + 2q and k + 3q, q = n // 4, so that the maxima of all
groups are one vectorised pass; the keys left over, up to three, count for the first groups and are looked at
apart. Keys are then looked for in groups whose maximum is above a bar, and moved without a branch, which
would be mispredicted too often.
"""

from typing import Any

import numpy as np

from regard.kernels.common.row_loops import inlined, maximum

PARTS = 64


@inlined
def fold(row: Any, space: Any) -> Any:
    """The maxima of the groups of a row of at least 12 keys, in a space for them."""
    q = row.size // 4
    a, b, c, d = row[:q], row[q : 2 * q], row[2 * q : 3 * q], row[3 * q : 4 * q]
    for k in range(q):
        space[k] = maximum(maximum(a[k], b[k]), maximum(c[k], d[k]))
    for j in range(4 * q, row.size):
        space[j - 4 * q] = maximum(space[j - 4 * q], row[j])
    return space[:q]


@inlined
def fold_more(tops: Any, one: Any, other: Any) -> Any:
    """The maxima of at most 64 parts of a row, from those of its groups: each is a key, and none is twice."""
    while tops.size > PARTS:
        tops, one, other = fold(tops, one), other, one
    return tops


@inlined
def groups_above(tops: Any, origin: Any, bar: Any) -> Any:
    """How many groups have a maximum above the bar, measured from the origin."""
    T = tops.dtype.type
    count = T(0)
    for top in tops:
        count += T(1) if top - origin > bar else T(0)
    return count


@inlined
def gather(row: Any, tops: Any, origin: Any, bar: Any, groups: Any, values: Any, places: Any) -> Any:
    """Write row − origin, where above the bar, into values and its index into places; return how many."""
    q = np.uint64(tops.size)
    hits = m = np.uint64(0)  # without a sign, an index needs no test whether it counts from the end
    for k in range(q):
        groups[hits] = k
        hits += np.uint64(tops[k] - origin > bar)
    for i in range(hits):
        for c in range(np.uint64(4)):
            j = np.uint64(groups[i]) + c * q
            x = row[j] - origin
            values[m], places[m] = x, j
            m += np.uint64(x > bar)
    for rest in range(np.uint64(4) * q, np.uint64(row.size)):
        x = row[rest] - origin
        values[m], places[m] = x, rest
        m += np.uint64(x > bar)
    return np.int64(m)
