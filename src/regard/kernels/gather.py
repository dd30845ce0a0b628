"""Finding the few keys of a row that matter, by the maxima of groups of four keys.

The group k of a row of n keys has the keys k, k + q, k + 2q and k + 3q, q = n // 4, so that the maxima of all groups
are one vectorised pass; the keys left over, up to three, count for the first groups but are looked at apart. Keys are then looked for in groups whose
maximum is above the bar, and moved without a branch, which would be mispredicted too often.
"""

from typing import Any

import numpy as np

from regard.kernels.rows import inlined
from regard.kernels.rows import maximum


@inlined
def fold(row: Any, tops: Any) -> Any:
    """Write the maxima of the groups of a row, at least 12 keys, into tops; return those places of it."""
    q = row.size // 4
    a, b, c, d = row[:q], row[q : 2 * q], row[2 * q : 3 * q], row[3 * q : 4 * q]
    for k in range(q):
        tops[k] = maximum(maximum(a[k], b[k]), maximum(c[k], d[k]))
    for j in range(4 * q, row.size):
        tops[j - 4 * q] = maximum(tops[j - 4 * q], row[j])
    return tops[:q]


@inlined
def groups_above(tops: Any, origin: Any, bar: Any) -> float:
    """How many groups have a maximum above the bar, measured from the origin."""
    count = tops.dtype.type(0)
    for top in tops:
        count += tops.dtype.type(1) if top - origin > bar else tops.dtype.type(0)
    return count


@inlined
def gather(row: Any, tops: Any, origin: Any, bar: Any, groups: Any, values: Any, places: Any) -> int:
    """Write row − origin, where above the bar, into values, and where that is into places; return how many."""
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
    for j in range(np.uint64(4) * q, np.uint64(row.size)):
        x = row[j] - origin
        values[m], places[m] = x, j
        m += np.uint64(x > bar)
    return np.int64(m)
