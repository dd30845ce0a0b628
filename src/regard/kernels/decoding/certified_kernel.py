"""One decoding step of sparse attention that reads codes of all keys, and the keys themselves of few.

Upper bounds of all scores (`bounds_kernel`) leave a few candidates (`candidates_kernel`), whose scores are
exact; the map runs on these, and the values of its support are read. Nothing is approximated: a key that is
left out has weight 0.
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.common.row_loops import inlined
from regard.kernels.common.simd import prefetch
from regard.kernels.decoding.bounds_kernel import SLACK, prepare, scan4, scan7
from regard.kernels.decoding.candidates_kernel import (
    LANES,
    apart,
    best_of_lanes,
    floor_of,
    kth_largest,
    score_places,
    select_above,
    threshold,
)
from regard.kernels.decoding.key_codes_kernel import TILE

STEPS, SEEN, SCORED, SUPPORT, KEYS, VALUES = range(6)  # columns of what is counted
SEGMENT = 4096  # keys of which the best in each of 32 lanes is looked at for the threshold
MOST = 16  # segments
FEW = 32  # candidates, below which all are scored at once
ROOM = 32  # numbers behind a list that may be written to


@inlined
def lowered(low: float, error: float) -> Any:
    """A float32 below a threshold that rounding may have put too high."""
    return np.float32(low - error - abs(low) * 1e-6 - 1e-6)


@inlined
def mark(seen: Any, places: Any, count: int) -> int:
    """Mark keys as read: how many were not before."""
    new = 0
    for e in range(count):
        j = places[e]
        new += seen[j] == 0
        seen[j] |= 1
    return new


@inlined
def best_places(bounds: Any, lo: int, hi: int, places: Any, work: Any) -> int:
    """Places of the keys with the best bounds, or nearly: how many."""
    part, count = (hi - lo) // min(max((hi - lo) // SEGMENT, 1), MOST) + 1, 0
    for first in range(lo, hi, part):
        count += best_of_lanes(bounds, first, min(first + part, hi), places[count:])
    if count <= LANES:
        return count
    for e in range(count):
        work[e] = bounds[places[e]]
    least, kept = kth_largest(work, count, LANES), 0
    for e in range(count):
        j = places[e]
        places[kept] = j
        kept += bounds[j] >= least
    return kept


@inlined
def candidates(
    query: Any, row: int, bounds: Any, lo: int, hi: int, keys: Any, base: int, half: float, k: int,
    sink: float, error: float, places: Any, scores: Any, some: Any, work: Any, seen: Any,
) -> Any:  # fmt: skip
    """The keys that can have weight and their scores, in places and scores.

    Returns how many there are, how many scores were computed, their threshold, and how many keys no row
    before has read. A bound is -inf after its key was scored.
    """
    exact = best_places(bounds, lo, hi, places, work)
    score_places(query, row, keys, base, places, exact, scores)
    new = mark(seen, places, exact)
    low = floor_of(scores, exact, half, k, -np.inf, work)
    if k == 0:
        low = max(low, sink - 1.0 / half)
    floor, kept = lowered(low, error), 0
    if k == 0:  # with k, of equal scores the first counts: all are scored anew, in their order
        for e in range(exact):
            s, j = scores[e], places[e]
            bounds[j] = -np.inf
            scores[kept], places[kept] = s, j
            kept += s > floor
    left = places[kept:]
    count = select_above(bounds, lo, hi, floor, left)
    if k == 0 and count > FEW:  # the better ones first, which raise the threshold for the others
        mean = np.float32(0)
        for e in range(count):
            mean += bounds[left[e]]
        mean /= np.float32(count)
        upper, lower = 0, 0
        for e in range(count):
            j = left[e]
            above = bounds[j] > mean
            left[upper], some[lower] = j, j
            upper += above
            lower += not above
        score_places(query, row, keys, base, left, upper, scores[kept:])
        low = max(low, floor_of(scores, kept + upper, half, 0, np.float64(floor), work))
        floor, count = max(floor, lowered(low, error)), upper
        for e in range(lower):
            j = some[e]
            left[count] = j
            count += bounds[j] > floor
        score_places(query, row, keys, base, left[upper:], count - upper, scores[kept + upper :])
    else:
        score_places(query, row, keys, base, left, count, scores[kept:])
    new += mark(seen, left, count)
    last, exact = kept + count, exact + count
    kept = 0
    for e in range(last):
        s, j = scores[e], places[e]
        scores[kept], places[kept] = s, j
        kept += s > floor
    return kept, exact, np.float64(floor), new


@inlined
def keep_highest(places: Any, scores: Any, count: int, k: int, work: Any) -> int:
    """Keep the k highest scores, of equal ones the first: how many there are."""
    if count <= k:
        return count
    for e in range(count):
        work[e] = scores[e]
    least = kth_largest(work, count, k)
    level, kept = k, 0
    for e in range(count):
        level -= scores[e] > least
    for e in range(count):
        s, j = scores[e], places[e]
        scores[kept], places[kept] = s, j
        kept += s > least or (s == least and level > 0)
        level -= s == least
    return kept


@inlined
def weigh(scores: Any, count: int, half: float, low: float, weights: Any) -> None:
    """Weights of scores[:count]: softmax if h = 0, else [h(θ − t)]₊^(1/h)."""
    if half == 0.0:
        top, whole = np.float64(scores[0]), 0.0
        for e in range(1, count):
            top = max(top, np.float64(scores[e]))
        for e in range(count):
            weights[e] = np.exp(apart(scores[e], top))
            whole += weights[e]
        for e in range(count):
            weights[e] /= whole
        return
    top, tau = threshold(scores, count, half, low)
    for e in range(count):
        x = max(apart(apart(scores[e], top) * half, tau), 0.0)
        weights[e] = x * x if half == 0.5 else x if half == 1.0 else x ** (1.0 / half)


@compiled
def certified(
    start: int, stop: int, query: Any, each: int, keys: Any, values: Any, packed: Any, bits: int,
    scales: Any, errors: Any, norms: Any, lo: Any, hi: Any, halves: Any, k: int, sinks: Any, context: Any,
    counts: Any, outcome: Any,
) -> None:  # fmt: skip
    """Context of the rows start … stop of query (rows, d); rows g · each … share the keys of group g.

    keys (groups, capacity, d) and values (groups, capacity, d_v); packed (groups, bytes), scales, errors
    (groups, capacity in blocks of 8) and norms (groups, 2) are as `encode` writes them. Row r sees the keys
    lo[r] ≤ j < hi[r], and one of score sinks[r] without value. halves (rows,): α − 1 of entmax, or 0 for
    softmax; with k > 0, of the k highest scores. counts (rows, 6) are added to: steps, keys that were
    visible, scores that were computed, weights above 0, and keys and values that were read, each once for all
    rows of a group in one call. outcome (2,): the first is set if a number is so large, or so wrong, that
    nothing is certain, and the context is to be computed in another way; to the second all scores that were
    computed are added.
    """
    d, wide = query.shape[1], (query.shape[1] + TILE - 1) // TILE * TILE
    last, scored = 0, 0
    for row in range(start, stop):
        last = max(last, hi[row])
    room = (last + 7) // 8 * 8 + ROOM
    turned, codes = np.empty(d), np.zeros((each, wide), np.int8)
    quads = codes.view(np.int32)
    facts, bounds = np.empty((each, 5), np.float32), np.empty((each, room), np.float32)
    places, some = np.empty(room, np.int32), np.empty(room, np.int32)
    scores, work = np.empty(room, np.float32), np.empty(room, np.float32)
    weights, seen = np.empty(room), np.empty(room, np.uint8)
    flat_keys, flat_values, d_v = keys.reshape(-1), values.reshape(-1), values.shape[2]
    for group in range(start // each, (stop + each - 1) // each):
        begin, rows = max(start, group * each), min(stop, group * each + each) - max(start, group * each)
        first, end = room, 0
        for r in range(rows):
            row = begin + r
            if not prepare(query, row, norms[group], 8.0 if bits == 4 else 64.0, turned, codes[r], facts[r]):
                outcome[0] = 1
                return
            first, end = min(first, lo[row]), max(end, hi[row])
        first -= first % 8
        seen[first:end] = 0
        if bits == 4:
            scan4(packed[group], scales[group], errors[group], quads, wide, facts, rows, first, end, bounds)
        else:
            scan7(packed[group], scales[group], errors[group], quads, wide, facts, rows, first, end, bounds)
        key_base, value_base = group * keys.shape[1] * d, group * values.shape[1] * d_v
        for r in range(rows):
            row = begin + r
            z = context[row]
            z[:] = 0
            if hi[row] <= lo[row]:
                continue
            half, sink = halves[row], sinks[row]
            count, exact, low, new = candidates(
                query, row, bounds[r], lo[row], hi[row], flat_keys, key_base, half, k, sink,
                np.float64(facts[r, SLACK]), places, scores, some, work, seen,
            )  # fmt: skip
            if sink > -np.inf:
                scores[count], places[count] = sink, -1
                count += 1
            if k > 0:
                count, low = keep_highest(places, scores, count, k, work), -np.inf
            weigh(scores, count, half, low, weights)
            support, fresh = 0, 0
            for e in range(count):
                places[support], weights[support] = places[e], weights[e]
                support += weights[e] > 0.0 and places[e] >= 0
            for e in range(min(support, 8)):
                for i in range(0, d_v, 16):
                    prefetch(flat_values, value_base + places[e] * d_v + i)
            for e in range(support):
                if e + 8 < support:
                    for i in range(0, d_v, 16):
                        prefetch(flat_values, value_base + places[e + 8] * d_v + i)
                j, p = places[e], np.float32(weights[e])
                fresh += seen[j] < 2
                seen[j] |= 2
                v = values[group, j]
                for i in range(d_v):
                    z[i] += p * v[i]
            counts[row, STEPS] += 1
            counts[row, SEEN] += hi[row] - lo[row]
            counts[row, SCORED] += exact
            counts[row, SUPPORT] += support
            counts[begin, KEYS] += new
            counts[begin, VALUES] += fresh
            scored += exact
    outcome[1] += scored
