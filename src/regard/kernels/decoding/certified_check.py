"""What the certified backend promises, checked against float64: no bound too low, no key with weight lost."""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.common.row_loops import exactly
from regard.kernels.decoding.bounds_kernel import SLACK, prepare, scan4, scan7
from regard.kernels.decoding.candidates_kernel import kth_largest
from regard.kernels.decoding.certified_kernel import ROOM, candidates
from regard.kernels.decoding.key_codes_kernel import TILE

REFUSED, LOW, LOST, CHECKED = range(4)


@exactly
def definition(scores: Any, count: int, half: float, k: int, work: Any) -> Any:
    """The threshold of the map in float64, by bisection: keys above it, and no others, have weight."""
    if k > 0:
        for j in range(count):
            work[j] = scores[j]
        return -np.inf if count <= k else kth_largest(work, count, k)
    top = scores[0]
    for j in range(count):
        top = max(top, scores[j])
    low, high = top - 1.0 / half, top
    for _ in range(100):
        t = 0.5 * (low + high)
        whole = 0.0
        for j in range(count):
            if scores[j] > t:
                x = half * (scores[j] - t)
                whole += x if half == 1.0 else x * x if half == 0.5 else x ** (1.0 / half)
        if whole >= 1.0:
            low = t
        else:
            high = t
    return high


@compiled
def check(
    query: Any, keys: Any, packed: Any, bits: int, scales: Any, errors: Any, norms: Any, hi: Any, half: float,
    k: int, found: Any,
) -> None:  # fmt: skip
    """Add to found (4,): queries refused, bounds below the score, keys with weight lost, and pairs checked.

    query (m, d), keys (1, n, d) with their codes; query i sees the first hi[i] keys.
    """
    m, d = query.shape
    wide, n = (d + TILE - 1) // TILE * TILE, keys.shape[1]
    room = (n + 7) // 8 * 8 + ROOM
    turned, codes, facts = np.empty(d), np.zeros((1, wide), np.int8), np.empty((1, 5), np.float32)
    bounds = np.empty((1, room), np.float32)
    places, scores = np.empty(room, np.int32), np.empty(room, np.float32)
    some = np.empty(room, np.int32)
    work, seen = np.empty(room, np.float32), np.empty(0, np.uint8)
    exact, more, kept = np.empty(n), np.empty(n), np.zeros(n, np.uint8)
    flat = keys.reshape(-1)
    for i in range(m):
        if not prepare(query, i, norms[0], 8.0 if bits == 4 else 64.0, turned, codes[0], facts[0]):
            found[REFUSED] += 1
            continue
        end = hi[i]
        quads = codes.view(np.int32)
        if bits == 4:
            scan4(packed[0], scales[0], errors[0], quads, wide, facts, 1, 0, end, bounds)
        else:
            scan7(packed[0], scales[0], errors[0], quads, wide, facts, 1, 0, end, bounds)
        for j in range(end):
            s = 0.0
            for c in range(d):
                s += np.float64(query[i, c]) * np.float64(keys[0, j, c])
            exact[j], kept[j] = s, 0
            found[LOW] += np.float64(bounds[0, j]) < s
        count, _, _ = candidates(
            query, i, bounds[0], 0, end, flat, 0, half, k, -np.inf, np.float64(facts[0, SLACK]), places,
            scores, some, work, seen,
        )  # fmt: skip
        for e in range(count):
            kept[places[e]] = 1
        t = definition(exact, end, half, k, more)
        for j in range(end):
            weight = exact[j] >= t if k > 0 else exact[j] > t
            found[LOST] += weight and kept[j] == 0
        found[CHECKED] += end
