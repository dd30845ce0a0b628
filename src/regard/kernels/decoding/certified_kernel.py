"""One decoding step of sparse attention that reads codes of all keys, and the keys themselves of few.

Upper bounds of all scores (`bounds_kernel`) leave a few candidates (`candidates_kernel`), whose scores are
exact; the map runs on these, and the values of its support are read. Nothing is approximated: a key that is
left out has weight 0.
"""

from functools import cache
from typing import Any

import numpy as np
import torch
from numba.np.numpy_support import carray

from regard.kernels.common.native import callback, doubles, integers, octets, stored
from regard.kernels.common.row_loops import inlined
from regard.kernels.common.simd import arrive, claim, prefetch, reached
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
from regard.kernels.decoding.certified_arguments import INTEGERS, REALS
from regard.kernels.decoding.key_codes_kernel import TILE

STEPS, SEEN, SCORED, SUPPORT, KEYS, VALUES = range(6)  # columns of what is counted
SEGMENT = 4096  # keys of which the best in each of 32 lanes is looked at for the threshold
MOST = 16  # segments
FEW = 32  # candidates, below which all are scored at once
ROOM = 32  # numbers behind a list that may be written to
CHUNK = 4096  # keys of which a thread scans the codes at once, a multiple of 16
AHEAD, LINE = 8, 16  # values that are fetched before they are added; numbers that memory brings at once
TASKS, REFUSED, SCORES, OF_GROUPS = 0, 1, 2, 4  # places of counters


@cache
def compiled_certified() -> Any:
    """The kernel, as something that ctypes calls with the address of `Arguments`."""
    return callback(certified, INTEGERS, REALS, torch.float32)


@inlined
def lowered(low: float, error: float) -> Any:
    """A float32 below a threshold that rounding may have put too high."""
    return np.float32(low - error - abs(low) * 1e-6 - 1e-6)


@inlined
def mark(seen: Any, places: Any, count: int) -> None:
    """Mark what is read, if anybody counts it. Threads may mark the same at once."""
    if len(seen) > 0:
        for e in range(count):
            seen[places[e]] = 1


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

    Returns how many there are, how many scores were computed, and their threshold. A bound is -inf after its
    key was scored.
    """
    exact = best_places(bounds, lo, hi, places, work)
    score_places(query, row, keys, base, places, exact, scores)
    mark(seen, places, exact)
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
    mark(seen, left, count)
    last, exact = kept + count, exact + count
    kept = 0
    for e in range(last):
        s, j = scores[e], places[e]
        scores[kept], places[kept] = s, j
        kept += s > floor
    return kept, exact, np.float64(floor)


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


@inlined
def add_support(values: Any, base: int, places: Any, weights: Any, support: int, z: Any) -> None:
    """z += Σ pₑ · values[base + placeₑ], which are fetched ahead."""
    d = len(z)
    flat = values.reshape(-1)
    for e in range(min(support, AHEAD)):
        for i in range(0, d, LINE):
            prefetch(flat, (base + places[e]) * d + i)
    for e in range(support):
        if e + AHEAD < support:
            for i in range(0, d, LINE):
                prefetch(flat, (base + places[e + AHEAD]) * d + i)
        p, v = np.float32(weights[e]), values[base + places[e]]
        for i in range(d):
            z[i] += p * v[i]


@inlined
def group_ends(lo: Any, hi: Any, begin: int, each: int, last: int) -> Any:
    """From which key, a multiple of 8, to which the rows of a group look."""
    first, end = last, 0
    for row in range(begin, begin + each):
        first, end = min(first, lo[row]), max(end, min(hi[row], last))
    return first - first % 8, end


@inlined
def add_read(seen: Any, groups: int, group: int, first: int, end: int, counts: Any) -> None:
    """Add the keys and values of a group that were read to what is counted of its first row."""
    for column in range(2):
        read, some = seen[column * groups + group], 0
        for j in range(first, end):
            some += read[j]
        counts[KEYS + column] += some


def certified(struct: Any) -> None:
    """Context (rows, d_v) of query (rows, d), by as many threads as call it: see `certified_arguments`.

    They share out tasks: chunk c of the scan of group g, then its rows, which wait for the chunks. So that
    nobody waits long, the next group is scanned before. counters: the tasks taken, whether a number is so
    large, or so wrong, that nothing is certain and the context is to be computed in another way, the scores
    that were computed, one that is not used; then the chunks, and the rows, of each group that are done.

    counts are steps, keys that were visible, scores that were computed, weights above 0, and keys and values
    that were read, each once for all rows of a group, in its first row.
    """
    args = carray(struct, 1)[0]
    kind, rows, groups, d, d_v = args.kind, args.rows, args.groups, args.d, args.d_v
    capacity, room, bits, k, last, chunks = (
        args.capacity,
        args.room,
        args.bits,
        args.k,
        args.last,
        args.chunks,
    )
    each, wide = rows // groups, (d + TILE - 1) // TILE * TILE
    given, query = (
        carray(stored(args.query, kind), (rows, d)),
        carray(stored(args.scaled, kind), (rows, d)),
    )
    keys = carray(stored(args.keys, kind), (groups * capacity * d,))
    values = carray(stored(args.values, kind), (groups * capacity, d_v))
    packed = carray(octets(args.packed, kind), (groups, room * args.bytes))
    scales = carray(stored(args.scales, kind), (groups, room))
    errors = carray(stored(args.errors, kind), (groups, room))
    norms = carray(doubles(args.norms, kind), (groups, 2))
    context = carray(stored(args.context, kind), (rows, d_v))
    lo, hi = carray(integers(args.lo, kind), (rows,)), carray(integers(args.hi, kind), (rows,))
    sinks, halves = carray(doubles(args.sinks, kind), (rows,)), carray(doubles(args.halves, kind), (rows,))
    bounds = carray(stored(args.bounds, kind), (rows, args.wide))
    slacks = carray(stored(args.slacks, kind), (rows,))
    counting = args.counts != 0
    counts = carray(integers(args.counts, kind), (rows if counting else 0, VALUES + 1))
    seen = carray(octets(args.seen, kind), (2 * groups if counting else 0, args.wide))
    counters = carray(integers(args.counters, kind), (OF_GROUPS + 2 * groups,))
    turned, codes, facts = np.empty(d), np.zeros((each, wide), np.int8), np.empty((each, 5), np.float32)
    quads, known, first, end = codes.view(np.int32), -1, 0, 0
    places, some = np.empty(0, np.int32), np.empty(0, np.int32)
    scores, work, weights = np.empty(0, np.float32), np.empty(0, np.float32), np.empty(0)
    none = np.empty(0, np.uint8)
    while True:
        task = arrive(counters, TASKS)
        stage, at = task // (chunks + each), task % (chunks + each)
        if stage >= groups + args.ahead:
            return
        if at < chunks:
            group = stage
            if group >= groups:
                continue
            if group != known:
                known = group
                first, end = group_ends(lo, hi, group * each, each, last)
                for r in range(each):
                    row, zero = group * each + r, 8.0 if bits == 4 else 64.0
                    for i in range(d):
                        query[row, i] = np.float32(given[row, i] * np.float32(args.scale))
                    if not prepare(query, row, norms[group], zero, turned, codes[r], facts[r]):
                        arrive(counters, REFUSED)
                    slacks[row] = facts[r, SLACK]
            begin, stop = first + at * CHUNK, min(first + at * CHUNK + CHUNK, end)
            if begin < stop:
                own = bounds[group * each : group * each + each]
                if counting:
                    seen[group, begin:stop], seen[groups + group, begin:stop] = 0, 0
                code, scale, error = packed[group], scales[group], errors[group]
                if bits == 4:
                    scan4(code, scale, error, quads, wide, facts, each, begin, stop, own)
                else:
                    scan7(code, scale, error, quads, wide, facts, each, begin, stop, own)
            arrive(counters, OF_GROUPS + group)
            continue
        group = stage - args.ahead
        if group < 0:
            continue
        while reached(counters, OF_GROUPS + group) < chunks:
            pass
        row = group * each + at - chunks
        z, low, high = context[row], lo[row], min(hi[row], last)
        z[:] = 0
        if reached(counters, REFUSED) == 0 and low < high:
            if len(places) == 0:
                places, some = np.empty(args.wide, np.int32), np.empty(args.wide, np.int32)
                scores, work = np.empty(args.wide, np.float32), np.empty(args.wide, np.float32)
                weights = np.empty(args.wide)
            half, sink, base = halves[row], sinks[row], group * capacity
            count, exact, floor = candidates(
                query, row, bounds[row], low, high, keys, base * d, half, k, sink, np.float64(slacks[row]),
                places, scores, some, work, seen[group] if counting else none,
            )  # fmt: skip
            if sink > -np.inf:
                scores[count], places[count] = sink, -1
                count += 1
            if k > 0:
                count, floor = keep_highest(places, scores, count, k, work), -np.inf
            weigh(scores, count, half, floor, weights)
            support = 0
            for e in range(count):
                places[support], weights[support] = places[e], weights[e]
                support += weights[e] > 0.0 and places[e] >= 0
            add_support(values, base, places, weights, support, z)
            if counting:
                mark(seen[groups + group], places, support)
                counts[row, STEPS] += 1
                counts[row, SEEN] += high - low
                counts[row, SCORED] += exact
                counts[row, SUPPORT] += support
            claim(counters[SCORES:], exact)
        if arrive(counters, OF_GROUPS + groups + group) == each - 1 and counting:
            begin, stop = group_ends(lo, hi, group * each, each, last)
            add_read(seen, groups, group, begin, stop, counts[group * each])
