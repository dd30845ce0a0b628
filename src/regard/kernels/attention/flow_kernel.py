"""The largest flow through layers of weights, from every node of the top layer to every one of the bottom.

Dinic's algorithm: label the nodes by their distance from the source along edges with room, fill the shortest
paths until none is left, label again. Here every edge goes one layer down, so the first labels are known.
Where one can go from a node is kept as bits, 64 to a word: labelling and the search for the next edge cost a
few instructions per node, not per edge. The edge straight down comes first (residual connections make it the
widest), then its neighbours to the right, in a circle, so that not all crowd into the same node.

Of a stack of matrices the top one matters in the source's row alone and the bottom one in the sink's column
alone; `cap` has those between, [h, i, k] from node i of layer h + 1 to node k of layer h. Room and flow of at
most `least` count as none.

Dinic (1970), "Algorithm for Solution of a Problem of Maximum Flow in Networks with Power Estimation", Soviet
Mathematics Doklady 11.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from regard.kernels.common.compiled import compiled
from regard.kernels.common.row_loops import inlined

ONE, ALL = np.uint64(1), np.uint64(0xFFFF_FFFF_FFFF_FFFF)


def _lowest(typing: Any, word: Any) -> Any:
    """The place of the lowest bit of a word that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.int64(types.uint64), generate


lowest: Any = intrinsic(_lowest)


@inlined
def add(bits: Any, k: int) -> None:
    """Set a bit."""
    bits[k >> 6] |= ONE << np.uint64(k & 63)


@inlined
def drop(bits: Any, k: int) -> None:
    """Clear a bit."""
    bits[k >> 6] &= ~(ONE << np.uint64(k & 63))


@inlined
def both(a: Any, b: Any, start: int) -> int:
    """The first place from start on, in a circle, that is in a and in b; −1 if there is none."""
    words, first = len(a), start >> 6
    ahead = ALL << np.uint64(start & 63)
    shared = a[first] & b[first] & ahead
    if shared:
        return (first << 6) + int(lowest(shared))
    for step in range(1, words):
        w = (first + step) % words
        shared = a[w] & b[w]
        if shared:
            return (w << 6) + int(lowest(shared))
    shared = a[first] & b[first] & ~ahead
    return (first << 6) + int(lowest(shared)) if shared else -1


@inlined
def enter(edges: Any, next: Any, seen: Any) -> bool:
    """Add where the edges lead and nobody has been; whether that is anywhere."""
    some = False
    for w in range(len(edges)):
        new = edges[w] & ~seen[w]
        next[w] |= new
        seen[w] |= new
        some |= new != 0
    return some


@compiled
def meet(bits: Any, others: Any) -> None:
    """Keep what both have. A loop: whole arrays, whose shapes are compared, take seconds more to compile."""
    for w in range(len(bits)):
        bits[w] &= others[w]


@compiled
def copied(given: Any, into: Any) -> None:
    """Copy (layers, n, m) into another of that shape, in loops for the same reason."""
    for h in range(given.shape[0]):
        for k in range(given.shape[1]):
            for j in range(given.shape[2]):
                into[h, k, j] = given[h, k, j]


@compiled
def label(down: Any, up: Any, open_: Any, wanted: Any, at: Any, seen: Any) -> int:
    """Write the nodes at each distance from the source into `at` (distance, layer, words).

    From 1, the nodes in `open_`, to the distance at which one in `wanted` is met, which is returned; 0: none.
    """
    layers, words = seen.shape
    seen[:], at[1] = 0, 0
    for w in range(words):
        seen[layers - 1, w] = at[1, layers - 1, w] = open_[w]
    some, d = True, 1
    while some:
        met = False
        for w in range(words):
            met |= (at[d, 0, w] & wanted[w]) != 0
        if met:
            meet(at[d, 0], wanted)
            at[d, 1:] = 0
            return d
        some = False
        at[d + 1] = 0
        for h in range(layers):
            for w in range(words):
                bits = at[d, h, w]
                while bits:
                    k = (w << 6) + lowest(bits)
                    bits &= bits - ONE
                    if h > 0:
                        some |= enter(down[h - 1, k], at[d + 1, h - 1], seen[h - 1])
                    if h < layers - 1:
                        some |= enter(up[h, k], at[d + 1, h + 1], seen[h + 1])
        d += 1
    return 0


@compiled
def fill(
    cap: Any, room: Any, sink: Any, down: Any, up: Any, at: Any, last: int, least: float, path: Any, sums: Any
) -> float:
    """Send up to sums[0, 1] from node path[0, 1] of the top layer along the labels; returns how much went.

    Along the path, by distance: `path` has node and layer, `sums` what is to be sent from there and what was.
    """
    node, layer, want, sent = path[0], path[1], sums[0], sums[1]
    layer[1], sent[1], d = len(cap), 0.0, 1
    while True:
        k, h, left, child = node[d], layer[d], want[d] - sent[d], -1
        if left > least and d == last:
            amount = min(left, sink[k])
            sink[k] -= amount
            sent[d] += amount
        elif left > least:
            if h > 0:
                child = both(down[h - 1, k], at[d + 1, h - 1], k)
                if child >= 0:
                    layer[d + 1], want[d + 1] = h - 1, min(left, room[h - 1, k, child])
            if child < 0 and h < len(cap):
                child = both(up[h, k], at[d + 1, h + 1], k)
                if child >= 0:
                    layer[d + 1], want[d + 1] = h + 1, min(left, cap[h, child, k] - room[h, child, k])
        if child >= 0:
            d += 1
            node[d], sent[d] = child, 0.0
            continue
        if sent[d] < want[d] - least:
            drop(at[d, h], k)  # nothing more goes through here
        if d == 1:
            return float(sent[1])
        d -= 1
        amount, before = sent[d + 1], node[d]
        sent[d] += amount
        if h < layer[d]:
            room[h, before, k] -= amount
            if room[h, before, k] <= least:
                drop(down[h, before], k)
            if cap[h, before, k] - room[h, before, k] > least:
                add(up[h, k], before)
        else:
            room[h - 1, k, before] += amount
            if room[h - 1, k, before] > least:
                add(down[h - 1, k], before)
            if cap[h - 1, k, before] - room[h - 1, k, before] <= least:
                drop(up[h - 1, before], k)


@compiled
def largest(
    cap: Any, room: Any, source: Any, sink: Any, bound: float, least: float,
    down: Any, up: Any, at: Any, seen: Any, ends: Any, path: Any, sums: Any,
) -> float:  # fmt: skip
    """The largest flow, at most `bound`; source (n,): the edges out of the one, sink (n,): into the other.

    Scratch, for n nodes in each of m + 1 layers and w words: `at` (n(m + 1) + 2, m + 1, w), `seen` (m + 1, w)
    and `ends` (2, w) uint64, `path` (2, n(m + 1) + 2) int64, `sums` the same float64.
    """
    n, top, open_, wanted, total = len(source), len(cap), ends[0], ends[1], 0.0
    last = top + 1
    for h in range(top + 1):
        at[last - h] = 0
        at[last - h, h] = ALL
    while True:
        open_[:], wanted[:] = 0, 0
        for k in range(n):
            if source[k] > least:
                add(open_, k)
            if sink[k] > least:
                add(wanted, k)
        if total > 0:
            last = label(down, up, open_, wanted, at, seen)
            if last == 0:
                return total
        else:
            meet(at[1, top], open_)
            meet(at[last, 0], wanted)
        before = total
        for k in range(n):
            if source[k] > least:
                path[0, 1], sums[0, 1] = k, source[k]
                went = fill(cap, room, sink, down, up, at, last, least, path, sums)
                source[k] -= went
                total += went
        if total >= bound - least or total == before:
            return total


@compiled
def flows(start: int, stop: int, caps: Any, out: Any, least: float) -> None:
    """Write the flow of rows start to stop of the batch's b · m sources to every sink into `out` (b, m, k).

    caps (b, layers, n, n), from the bottom up, at least two layers, finite and not negative.
    """
    m, layers, n = out.shape[1], caps.shape[1], caps.shape[2]
    middle, words = layers - 2, (n + 63) // 64
    nodes = (middle + 1) * n + 2
    room, ends = np.empty((middle, n, n)), np.empty((2, words), np.uint64)
    source, sink = np.empty(n), np.empty(n)
    free = np.empty((middle, n, words), np.uint64)
    down, up = np.empty_like(free), np.empty_like(free)
    at, seen = np.empty((nodes, middle + 1, words), np.uint64), np.empty((middle + 1, words), np.uint64)
    path, sums = np.empty((2, nodes), np.int64), np.empty((2, nodes))
    sentence = -1
    for row in range(start, stop):
        b, i = row // m, row % m
        cap = caps[b, 1 : layers - 1]
        if b != sentence:
            sentence = b
            free[:] = 0
            for h in range(middle):
                for k in range(n):
                    for j in range(n):
                        if cap[h, k, j] > least:
                            add(free[h, k], j)
        for j in range(out.shape[2]):
            supply, demand = 0.0, 0.0
            for k in range(n):
                source[k], sink[k] = caps[b, layers - 1, i, k], caps[b, 0, k, j]
                supply += source[k]
                demand += sink[k]
            bound = min(supply, demand)
            if bound <= least:
                out[b, i, j] = 0.0
                continue
            copied(cap, room)
            copied(free, down)
            up[:] = 0
            out[b, i, j] = largest(
                cap, room, source, sink, bound, least, down, up, at, seen, ends, path, sums
            )
