"""The supports of sparse attention: which keys a row keeps, with what weight, and backward on those alone.

    θⱼ = q·kⱼ        sⱼ = [h(θⱼ − max θ) − τ]₊        pⱼ = sⱼ^(1/h), Σⱼ pⱼ = 1        z = Σⱼ pⱼvⱼ

with h = 1 for sparsemax and h = ½ for 1.5-entmax. Scores are not stored: a tile of 6 queries × 2 vectors of
keys is computed in registers and compared there with a floor per row; only survivors reach memory. The τ of
some of a row's keys is a lower bound of the τ of all of them, since more keys can only raise it. So the floor
of a row rises while its keys are walked through, and few survive. At the end they are solved exactly.

Martins & Astudillo (2016), arXiv:1602.02068; Peters, Niculae & Martins (2019), arXiv:1905.05702. A threshold
that rises during the walk: Condat (2016), "Fast projection onto the simplex and the l1 ball".

Kernels share three tuples: `view`, what rows may look at: lo, hi (B, m), mask (flat), its steps along (B, m,
n); `lists`, scratch for GROUP rows: theta, places, and the distance from row to row; `kept`, what forward
leaves for backward: per row (B, m) floors, begins, sizes, then places and weights of all entries.
"""

from typing import Any

import numpy as np

from regard.kernels.compiled import compiled
from regard.kernels.lanes import (
    above,
    add,
    count_bits,
    first_bit,
    fma,
    get,
    larger,
    largest,
    load,
    put,
    splat,
    store,
    take,
    total,
    width,
    zeros,
)
from regard.kernels.rows import inlined

TALL = 6  # queries in a tile: 6 × 2 sums, 2 vectors of keys and 1 query fill the 16 registers of AVX2
TILES = 8
GROUP = TILES * TALL  # queries that walk together: with 2 vectors of keys they stay in the first cache
MOST = 64  # steps for a threshold; 3 to 8 are usual
FIRST = 64  # survivors before a row gets its first floor
AGAIN, BROKEN = -1, -2  # in place of a support's size: to be found again; its scores hold NaN or +inf


# Sums over entries e of a support: places are rows of a table whose width d is a multiple of a vector.


@inlined
def gather(
    weights: Any, places: Any, start: int, stop: int, table: Any, base: int, d: int, out: Any, o: int
) -> None:
    """out += Σₑ wₑ · table[placeₑ]."""
    w = width(table)
    c = 0
    while c + 4 * w <= d:
        s0, s1 = load(out, o + c), load(out, o + c + w)
        s2, s3 = load(out, o + c + 2 * w), load(out, o + c + 3 * w)
        for e in range(start, stop):
            x, t = splat(table, get(weights, e)), base + get(places, e) * d + c
            s0 = fma(x, load(table, t), s0)
            s1 = fma(x, load(table, t + w), s1)
            s2 = fma(x, load(table, t + 2 * w), s2)
            s3 = fma(x, load(table, t + 3 * w), s3)
        store(out, o + c, s0)
        store(out, o + c + w, s1)
        store(out, o + c + 2 * w, s2)
        store(out, o + c + 3 * w, s3)
        c += 4 * w
    while c < d:
        s0 = load(out, o + c)
        for e in range(start, stop):
            s0 = fma(splat(table, get(weights, e)), load(table, base + get(places, e) * d + c), s0)
        store(out, o + c, s0)
        c += w


@inlined
def scatter(
    weights: Any, places: Any, start: int, stop: int, row: Any, r: int, d: int, table: Any, base: int
) -> None:
    """table[placeₑ] += wₑ · row."""
    w = width(table)
    c = 0
    while c + 4 * w <= d:
        x0, x1 = load(row, r + c), load(row, r + c + w)
        x2, x3 = load(row, r + c + 2 * w), load(row, r + c + 3 * w)
        for e in range(start, stop):
            x, t = splat(table, get(weights, e)), base + get(places, e) * d + c
            store(table, t, fma(x, x0, load(table, t)))
            store(table, t + w, fma(x, x1, load(table, t + w)))
            store(table, t + 2 * w, fma(x, x2, load(table, t + 2 * w)))
            store(table, t + 3 * w, fma(x, x3, load(table, t + 3 * w)))
        c += 4 * w
    while c < d:
        x0 = load(row, r + c)
        for e in range(start, stop):
            t = base + get(places, e) * d + c
            store(table, t, fma(splat(table, get(weights, e)), x0, load(table, t)))
        c += w


@inlined
def dots(
    row: Any, r: int, table: Any, base: int, d: int, places: Any, start: int, stop: int, out: Any
) -> None:
    """outₑ = row · table[placeₑ]."""
    w = width(table)
    for e in range(start, stop):
        t = base + get(places, e) * d
        s0 = s1 = zeros(table)
        c = 0
        while c + 2 * w <= d:
            s0 = fma(load(row, r + c), load(table, t + c), s0)
            s1 = fma(load(row, r + c + w), load(table, t + c + w), s1)
            c += 2 * w
        if c < d:
            s0 = fma(load(row, r + c), load(table, t + c), s0)
        put(out, e, total(add(s0, s1)))


# From scores to supports.


@compiled
def solve(theta: Any, at: int, count: int, half: float, low: float, steps: int) -> Any:
    """(max, τ) of theta[at : at + count], τ in units of h(θ − max). A floor below that τ is where to start.

    f(τ) = Σ [u − τ]₊^(1/h) − 1 is convex and falls. A step solves f = 0 on the keys above the last τ, until
    none enters or leaves. For h = ½ it may pass the root, and the next one then comes back from above. After
    so many steps those of Newton take over, which never pass it; after 0 there is one, and τ is a lower bound
    alone. Writes one vector beyond the end.
    """
    w = width(theta)
    zero, halves = zeros(theta), splat(theta, half)
    store(theta, at + count, splat(theta, -np.inf))
    tops = load(theta, at)
    for e in range(at + w, at + count, w):
        tops = larger(tops, load(theta, e))
    top = largest(tops)
    down = splat(theta, -top)
    tau = max(-1.0, (low - top) * half)
    last, turn = -1, 0
    while True:
        k, sum1, sum2, minus = 0, 0.0, 0.0, splat(theta, -tau)
        for begin in range(at, at + count, 4096):  # sums of so many in their precision, those in float64
            s1 = s2 = zero
            for e in range(begin, min(begin + 4096, at + count), w):
                u = fma(halves, add(load(theta, e), down), minus)
                k += count_bits(above(u, zero))
                u = larger(u, zero)
                s1 = add(s1, u)
                s2 = fma(u, u, s2)
            sum1 += total(s1)
            sum2 += total(s2)
        newton = turn > steps
        if half == 1.0:
            tau += (sum1 - 1.0) / k
        else:
            root = sum1 * sum1 - k * (sum2 - 1.0)
            newton |= root < 0.0
            tau += (sum2 - 1.0) / (sum1 + (sum1 if newton else np.sqrt(root)))
        if k == last or (newton and steps == 0):
            return top, tau
        last, turn = -1 if newton and turn < MOST else k, turn + 1  # Newton's step is not the last


@compiled
def tighten(theta: Any, places: Any, at: int, count: int, half: float, low: float) -> Any:
    """Raise a row's floor to about the τ of its survivors and drop those below: (how many stay, floor)."""
    top, tau = solve(theta, at, count, half, low, 0)
    slack = 16 * np.finfo(theta.dtype).eps * (abs(top) + 2.0)  # so that rounding drops no key
    floor = theta.dtype.type(top + tau / half - slack)
    kept = at
    for e in range(at, at + count):
        x, j = get(theta, e), get(places, e)
        put(theta, kept, x)
        put(places, kept, j)
        kept += x > floor
    return kept - at, floor


@compiled
def finish(theta: Any, places: Any, at: int, count: int, half: float, low: float) -> int:
    """Solve a row: its survivors become its support, theta becomes s. The size of the support."""
    if count <= 0:
        return count
    top, tau = solve(theta, at, count, half, low, 16)
    w = width(theta)
    high = theta.dtype.type(tau)  # τ in twice the digits, so that many small weights still sum to 1
    down, minus, rest = splat(theta, -top), splat(theta, -high), splat(theta, high - tau)
    halves = splat(theta, half)
    for e in range(at, at + count, w):
        store(theta, e, add(fma(halves, add(load(theta, e), down), minus), rest))
    kept = at
    for e in range(at, at + count):
        x, j = get(theta, e), get(places, e)
        put(theta, kept, x)
        put(places, kept, j)
        kept += x > 0
    return kept - at


@inlined
def tile(queries: Any, q: int, panels: Any, p: int, d: int, floors: Any, f: int, out: Any, bits: Any) -> bool:
    """Score 6 queries with 2 vectors of keys. Is any above its row's floor? Then out and bits tell which."""
    w = width(panels)
    wide = 2 * w
    a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = e0 = e1 = f0 = f1 = zeros(panels)
    for _ in range(d):
        x, y = load(panels, p), load(panels, p + w)
        s = splat(panels, get(queries, q))
        a0, a1 = fma(s, x, a0), fma(s, y, a1)
        s = splat(panels, get(queries, q + 1))
        b0, b1 = fma(s, x, b0), fma(s, y, b1)
        s = splat(panels, get(queries, q + 2))
        c0, c1 = fma(s, x, c0), fma(s, y, c1)
        s = splat(panels, get(queries, q + 3))
        d0, d1 = fma(s, x, d0), fma(s, y, d1)
        s = splat(panels, get(queries, q + 4))
        e0, e1 = fma(s, x, e0), fma(s, y, e1)
        s = splat(panels, get(queries, q + 5))
        f0, f1 = fma(s, x, f0), fma(s, y, f1)
        p += wide
        q += TALL
    s = splat(panels, get(floors, f))
    upper = above(a0, s) | above(a1, s) << w
    s = splat(panels, get(floors, f + 1))
    upper |= (above(b0, s) | above(b1, s) << w) << wide
    s = splat(panels, get(floors, f + 2))
    upper |= (above(c0, s) | above(c1, s) << w) << 2 * wide
    s = splat(panels, get(floors, f + 3))
    lower = above(d0, s) | above(d1, s) << w
    s = splat(panels, get(floors, f + 4))
    lower |= (above(e0, s) | above(e1, s) << w) << wide
    s = splat(panels, get(floors, f + 5))
    lower |= (above(f0, s) | above(f1, s) << w) << 2 * wide
    if upper | lower == 0:
        return False
    bits[0], bits[1] = upper, lower
    store(out, 0, a0)
    store(out, w, a1)
    store(out, 2 * w, b0)
    store(out, 3 * w, b1)
    store(out, 4 * w, c0)
    store(out, 5 * w, c1)
    store(out, 6 * w, d0)
    store(out, 7 * w, d1)
    store(out, 8 * w, e0)
    store(out, 9 * w, e1)
    store(out, 10 * w, f0)
    store(out, 11 * w, f1)
    return True


@compiled
def pack(start: int, stop: int, keys: Any, panels: Any) -> None:
    """Lay out keys (B, n, d) as tiles read them: panels (B, ⌈n / 2w⌉, d, 2w), zeros beyond n."""
    n, d = keys.shape[1:]
    many, wide = panels.shape[1], panels.shape[3]
    for panel in range(start, stop):
        b, j = panel // many, panel % many * wide
        for x in range(wide):
            for c in range(d):
                key = get(keys, (b * n + j + x) * d + c) if j + x < n else 0.0
                put(panels, (panel * d + c) * wide + x, key)


@inlined
def collect_many(out: Any, j: int, row: int, floor: Any, count: int, theta: Any, places: Any, at: int) -> int:
    """Append a row's scores above its floor, without a branch: good where many are. The new count."""
    wide = 2 * width(out)
    end = at + count
    for x in range(wide):
        score = get(out, row * wide + x)
        put(theta, end, score)
        put(places, end, j + x)
        end += score > floor
    return end - at


@compiled
def search(
    b: int, rows: Any, query: Any, panels: Any, view: Any, half: float, floors: Any, counts: Any, lists: Any
) -> None:
    """Walk the given rows of slice b over their keys; counts[r] survivors of row r are left in its list.

    floors are where the rows start, −inf or a bound known from before, and where they end.
    """
    (lo, hi, mask, steps), (theta, places, stride) = view, lists
    d, w = query.shape[2], width(query)
    wide = 2 * w
    shift, n = first_bit(wide), panels.shape[1] * wide
    finite = splat(query, np.finfo(query.dtype).max)
    queries, out = np.zeros(GROUP * d, query.dtype), np.empty(TALL * wide, query.dtype)
    bits, limits = np.empty(2, np.int64), np.empty(GROUP, np.int64)
    begins, ends = np.zeros(GROUP, np.int64), np.zeros(GROUP, np.int64)
    spans = np.empty(4 * TILES, np.int64)  # keys that some row of a tile may look at, and that all may
    first, last = n, 0
    for t in range(TILES):
        spans[4 * t], spans[4 * t + 1], spans[4 * t + 2], spans[4 * t + 3] = n, 0, 0, n
    for r in range(GROUP):
        counts[r], limits[r] = 0, FIRST
        t = r // TALL
        if r < len(rows):
            i = rows[r]
            begin, end, at = lo[b, i], hi[b, i], b * steps[0] + i * steps[1]
            if mask.size > 0:
                while begin < end and not mask[at + begin * steps[2]]:
                    begin += 1
                while begin < end and not mask[at + (end - 1) * steps[2]]:
                    end -= 1
            begins[r], ends[r] = begin, end
            for c in range(d):
                queries[(t * d + c) * TALL + r % TALL] = query[b, i, c]
        if begins[r] < ends[r]:
            spans[4 * t], spans[4 * t + 1] = min(spans[4 * t], begins[r]), max(spans[4 * t + 1], ends[r])
            first, last = min(first, begins[r]), max(last, ends[r])
        spans[4 * t + 2] = max(spans[4 * t + 2], begins[r])
        spans[4 * t + 3] = min(spans[4 * t + 3], ends[r])
    for j in range(first // wide * wide, last, wide):
        for t in range(TILES):
            if j >= spans[4 * t + 1] or j + wide <= spans[4 * t]:
                continue
            if not tile(queries, t * TALL * d, panels, (b * n + j) * d, d, floors, t * TALL, out, bits):
                continue
            due = False
            many = count_bits(bits[0]) + count_bits(bits[1]) >= 2 * wide and mask.size == 0
            if many and j >= spans[4 * t + 2] and j + wide <= spans[4 * t + 3]:
                for x in range(0, TALL * wide, w):
                    many &= above(load(out, x), finite) == 0
            else:
                many = False
            if many:
                for r in range(TALL):
                    row = t * TALL + r
                    counts[row] = collect_many(
                        out, j, r, floors[row], counts[row], theta, places, row * stride
                    )
                    due |= counts[row] >= limits[row]
            else:
                for part in range(2):
                    left = bits[part]
                    while left != 0:
                        x = first_bit(left)
                        left &= left - 1
                        row, key = t * TALL + 3 * part + (x >> shift), j + (x & (wide - 1))
                        if key < get(begins, row) or key >= get(ends, row):
                            continue
                        if mask.size > 0 and not mask[b * steps[0] + rows[row] * steps[1] + key * steps[2]]:
                            continue
                        score, count = get(out, part * 3 * wide + x), get(counts, row)
                        if not score < np.inf:
                            counts[row], ends[row], spans[4 * t + 3] = BROKEN, 0, 0
                            continue
                        put(theta, row * stride + count, score)
                        put(places, row * stride + count, key)
                        put(counts, row, count + 1)
                        due |= count + 1 >= get(limits, row)
            if due:
                for row in range(t * TALL, (t + 1) * TALL):
                    count = counts[row]
                    if count >= limits[row]:
                        kept, floors[row] = tighten(theta, places, row * stride, count, half, floors[row])
                        counts[row], limits[row] = kept, 2 * kept + (8 if 2 * kept < count else 2 * kept)


@inlined
def stretch(counts: Any, size: int, n: int) -> int:
    """How many keys rows visit at a time: few where supports are large, so that those keys stay near."""
    entries = 1
    for r in range(size):
        entries += max(counts[r], 0)
    step = 24 * n * size // entries + 1  # about 24 entries of each row
    return step if step <= 512 else n


@inlined
def reach(places: Any, start: int, stop: int, key: int, n: int) -> int:
    """Where a row's entries before a key end; they are in order."""
    if key >= n:
        return stop
    while start < stop and get(places, start) < key:
        start += 1
    return start


@inlined
def fill(table: Any, row: int, x: float) -> None:
    """All of one row of a table (..., d) becomes x."""
    d = table.shape[-1]
    for c in range(row * d, (row + 1) * d):
        put(table, c, x)


@inlined
def copy(
    weights: Any, places: Any, at: int, size: int, weights_there: Any, places_there: Any, there: int
) -> None:
    """Copy entries at … at + size to there."""
    for e in range(size):
        put(weights_there, there + e, get(weights, at + e))
        put(places_there, there + e, get(places, at + e))


@inlined
def scratch(array: Any, n: int) -> Any:
    """Lists for GROUP rows of up to n keys; pages never written cost nothing."""
    stride = n + 4 * width(array)
    return np.empty(GROUP * stride, array.dtype), np.empty(GROUP * stride, np.int32), stride


@compiled
def forward(
    start: int, stop: int, ticket: Any, query: Any, panels: Any, values: Any, view: Any, half: float,
    context: Any, room: int, kept: Any,
) -> None:  # fmt: skip
    """Context (B, m, d_v) of query (B, m, d). A group of rows may store GROUP · room entries of its supports.

    Of each row remain: sizes, how many entries (or AGAIN, BROKEN); begins, where; floors, a bound below τ.
    """
    batch, m, _ = query.shape
    n, d = values.shape[1:]
    groups = -(-m // GROUP)
    floors, begins, sizes, places, weights = kept
    lists = scratch(query, n)
    theta, found, stride = lists
    floor, rows = np.empty(GROUP, query.dtype), np.empty(GROUP, np.int64)
    counts, nexts = np.empty(GROUP, np.int64), np.empty(GROUP, np.int64)
    while True:
        item = take(ticket)
        if item >= batch * groups:
            return
        b, first = item // groups, item % groups * GROUP
        size = min(GROUP, m - first)
        for r in range(size):
            rows[r], floor[r] = first + r, -np.inf
        search(b, rows[:size], query, panels, view, half, floor, counts, lists)
        used, end = item * GROUP * room, (item + 1) * GROUP * room
        for r in range(size):
            i, at = first + r, r * stride
            nexts[r] = at
            counts[r] = finish(theta, found, at, counts[r], half, floor[r])
            fill(context, b * m + i, np.nan if counts[r] == BROKEN else 0.0)
            if room > 0:
                fits = counts[r] <= end - used
                begins[b, i], sizes[b, i], floors[b, i] = used, counts[r] if fits else AGAIN, floor[r]
                if fits:
                    copy(theta, found, at, counts[r], weights, places, used)
                    used += max(counts[r], 0)
            if half != 1.0:
                for e in range(at, at + counts[r]):
                    put(theta, e, get(theta, e) * get(theta, e))
        step = stretch(counts, size, n)
        for key in range(step, n + step, step):
            for r in range(size):
                e = reach(found, nexts[r], r * stride + counts[r], key, n)
                gather(theta, found, nexts[r], e, values, b * n * d, d, context, (b * m + first + r) * d)
                nexts[r] = e


@compiled
def backward(
    start: int, stop: int, ticket: Any, query: Any, keys: Any, values: Any, gradient: Any, panels: Any,
    view: Any, half: float, kept: Any, dq: Any, dk: Any, dv: Any,
) -> None:  # fmt: skip
    """dq (B, m, d); dk (parts, B, n, d) and dv (parts, B, n, d_v), zeros before. The parts share the rows.

    On a row's support, dp = Vdz and dθ = Jdp with J = diag(s) − ssᵀ/Σs, where s is 1 for h = 1, √p for h = ½.
    """
    batch, m, d = query.shape
    n, d_v = values.shape[1:]
    parts = dk.shape[0]
    share = -(-m // parts)
    (lo, hi, mask, steps), (floors, begins, sizes, places, weights) = view, kept
    lists = scratch(query, n)
    theta, found, stride = lists
    dp, floor = np.empty(GROUP * stride, query.dtype), np.empty(GROUP, query.dtype)
    rows, counts, nexts = np.empty(GROUP, np.int64), np.empty(GROUP, np.int64), np.empty(GROUP, np.int64)
    while True:
        item = take(ticket)
        if item >= batch * parts:
            return
        b, part = item // parts, item % parts
        base = (part * batch + b) * n  # of this part's dk and dv
        for first in range(part * share, min(m, (part + 1) * share), GROUP):
            last = min(first + GROUP, m, (part + 1) * share)
            size = 0
            for i in range(first, last):
                fill(dq, b * m + i, 0.0)
                if sizes[b, i] == AGAIN:
                    rows[size], floor[size] = i, floors[b, i]
                    size += 1
            if size > 0:
                search(b, rows[:size], query, panels, view, half, floor, counts, lists)
                for r in range(size):
                    counts[r] = finish(theta, found, r * stride, counts[r], half, floor[r])
            for i in range(first, last):
                if sizes[b, i] > 0:
                    at, e, count = size * stride, begins[b, i], sizes[b, i]
                    copy(weights, places, e, count, theta, found, at)
                    rows[size], counts[size] = i, count
                    size += 1
                elif sizes[b, i] == BROKEN:
                    fill(dq, b * m + i, np.nan)
                    for j in range(lo[b, i], hi[b, i]):
                        if mask.size == 0 or mask[b * steps[0] + i * steps[1] + j * steps[2]]:
                            fill(dk, base + j, np.nan)
                            fill(dv, base + j, np.nan)
            step = stretch(counts, size, n)
            for r in range(size):
                nexts[r] = r * stride
            for key in range(step, n + step, step):
                for r in range(size):
                    e = reach(found, nexts[r], r * stride + counts[r], key, n)
                    row = b * m + rows[r]
                    dots(gradient, row * d_v, values, b * n * d_v, d_v, found, nexts[r], e, dp)
                    nexts[r] = e
            for r in range(size):
                at, inside, whole = r * stride, 0.0, 0.0
                for e in range(at, at + counts[r]):
                    s = 1.0 if half == 1.0 else get(theta, e)
                    inside += s * get(dp, e)
                    whole += s
                mean = inside / whole
                for e in range(at, at + counts[r]):
                    s = get(theta, e)
                    put(dp, e, (1.0 if half == 1.0 else s) * (get(dp, e) - mean))
                    put(theta, e, s if half == 1.0 else s * s)
                nexts[r] = at
            for key in range(step, n + step, step):
                for r in range(size):
                    e = reach(found, nexts[r], r * stride + counts[r], key, n)
                    row = b * m + rows[r]
                    gather(dp, found, nexts[r], e, keys, b * n * d, d, dq, row * d)
                    scatter(dp, found, nexts[r], e, query, row * d, d, dk, base * d)
                    scatter(theta, found, nexts[r], e, gradient, row * d_v, d_v, dv, base * d_v)
                    nexts[r] = e
