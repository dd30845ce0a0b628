"""The supports of sparse attention: which keys a row keeps, with what weight, and backward on those alone.

    θⱼ = q·kⱼ        p = [h(θ − max θ) − τ]₊^(1/h)        z = Σⱼ pⱼvⱼ        h = 1: sparsemax, h = ½: 1.5-entmax

Scores are never stored. A tile of 6 queries × 2 vectors of keys is computed in registers and compared there with a
threshold per row; only survivors reach memory. The τ of any part of a row is a lower bound of the τ of the whole
row (more keys can only raise it), so the threshold of a row rises while its keys are walked through, and few
survive: about 100 of 2,048 on normal scores. What is left at the end is solved exactly.

Support and τ: Martins & Astudillo (2016), arXiv:1602.02068, and Peters, Niculae & Martins (2019), arXiv:1905.05702.
Thresholds that rise during a walk: Condat (2016), "Fast projection onto the simplex and the l1 ball".
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from regard.kernels.compiled import compiled

TALL = 6  # queries in a tile: 6 × 2 sums, 2 vectors of keys and 1 query fill the 16 registers of AVX2
GROUP = 8 * TALL  # queries that share a walk over the keys: they and 2 vectors of keys stay in the first cache
FIRST = 32  # survivors before a row's threshold is computed for the first time
STORED, AGAIN, BROKEN = 0, -1, -2  # a row's support is stored (its size), must be found again, or its scores are NaN


# Vectors of 256 bits as values inside kernels. Numba has none, and its compiler does not find the tile by itself.


class Lanes(types.Type):  # type: ignore[misc]
    """8 float32 or 4 float64."""

    def __init__(self, dtype: Any) -> None:
        self.dtype, self.width = dtype, 256 // dtype.bitwidth
        super().__init__(name=f"Lanes({dtype} x {self.width})")


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, lanes: Any) -> None:
        element = manager.lookup(lanes.dtype).get_value_type()
        super().__init__(manager, lanes, ir.VectorType(element, lanes.width))


def _pointer(context: Any, builder: Any, array: Any, value: Any, at: Any, vector: Any) -> Any:
    data = context.make_array(array)(context, builder, value).data
    return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())


@intrinsic  # type: ignore[misc]
def width(typing: Any, array: Any) -> Any:
    """How many elements of this array a vector holds."""
    size = 256 // array.dtype.bitwidth
    return types.intp(array), lambda context, builder, signature, args: ir.IntType(64)(size)


@intrinsic  # type: ignore[misc]
def zeros(typing: Any, array: Any) -> Any:
    """A vector of zeros, of the array's dtype."""
    lanes = Lanes(array.dtype)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(lanes), [0.0] * lanes.width)

    return lanes(array), code


@intrinsic  # type: ignore[misc]
def load(typing: Any, array: Any, at: Any) -> Any:
    """The vector that begins at a flat index of a contiguous array."""
    lanes = Lanes(array.dtype)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _pointer(context, builder, array, *args, context.get_value_type(lanes))
        return builder.load(place, align=array.dtype.bitwidth // 8)

    return lanes(array, types.intp), code


@intrinsic  # type: ignore[misc]
def store(typing: Any, array: Any, at: Any, lanes: Any) -> Any:
    """Write a vector at a flat index of a contiguous array."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value, at, vector = args
        place = _pointer(context, builder, array, value, at, vector.type)
        builder.store(vector, place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), code


@intrinsic  # type: ignore[misc]
def splat(typing: Any, array: Any, x: Any) -> Any:
    """A vector that holds the number x everywhere, of the array's dtype."""
    lanes = Lanes(array.dtype)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        nothing = ir.Constant(context.get_value_type(lanes), ir.Undefined)
        number = context.cast(builder, args[1], x, lanes.dtype)
        one = builder.insert_element(nothing, number, ir.IntType(32)(0))
        return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(ir.IntType(32), lanes.width), None))

    return lanes(array, x), code


@intrinsic  # type: ignore[misc]
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """ab + c."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(builder.fmul(*args[:2], flags=("contract",)), args[2], flags=("contract",))

    return a(a, b, c), code


@intrinsic  # type: ignore[misc]
def larger(typing: Any, a: Any, b: Any) -> Any:
    """The larger of two, element by element."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return a(a, b), code


@intrinsic  # type: ignore[misc]
def above(typing: Any, a: Any, b: Any) -> Any:
    """Bit j of the answer: a[j] > b[j], or one of them is NaN."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(builder.fcmp_unordered(">", *args), ir.IntType(a.width))
        return builder.zext(bits, ir.IntType(64))

    return types.int64(a, b), code


def _fold(combine: Any) -> Any:
    """Combine the halves of a vector until one element is left."""

    def build(typing: Any, a: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector, size = args[0], a.width
            while size > 1:
                size //= 2
                half = ir.Constant(ir.VectorType(ir.IntType(32), size), list(range(size)))
                rest = ir.Constant(ir.VectorType(ir.IntType(32), size), list(range(size, 2 * size)))
                low, high = builder.shuffle_vector(vector, vector, half), builder.shuffle_vector(vector, vector, rest)
                vector = combine(builder, low, high)
            return builder.extract_element(vector, ir.IntType(32)(0))

        return a.dtype(a), code

    return build


@intrinsic  # type: ignore[misc]
def total(typing: Any, a: Any) -> Any:
    """The sum of a vector's elements."""
    return _fold(lambda builder, x, y: builder.fadd(x, y))(typing, a)


@intrinsic  # type: ignore[misc]
def largest(typing: Any, a: Any) -> Any:
    """The largest of a vector's elements."""
    return _fold(lambda builder, x, y: builder.select(builder.fcmp_ordered(">", x, y), x, y))(typing, a)


@intrinsic  # type: ignore[misc]
def first_bit(typing: Any, bits: Any) -> Any:
    """The place of the lowest bit that is set."""
    return types.int64(types.int64), lambda context, builder, signature, args: builder.cttz(args[0], ir.IntType(1)(1))


@intrinsic  # type: ignore[misc]
def count_bits(typing: Any, bits: Any) -> Any:
    """How many bits are set."""
    return types.int64(types.int64), lambda context, builder, signature, args: builder.ctpop(args[0])


@intrinsic  # type: ignore[misc]
def take(typing: Any, ticket: Any) -> Any:
    """The next number of a ticket machine (an int64 array of one element) that threads share."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(ticket)(context, builder, args[0]).data
        return builder.atomic_rmw("add", data, ir.IntType(64)(1), "monotonic")

    return types.int64(ticket), code


# Sums over a support: places[at:at+size] are rows of a table (n, d), d a multiple of a vector.


@compiled
def gather(weights, places, at, size, table, base, d, out, o):  # type: ignore[no-untyped-def]
    """out = Σₑ wₑ · table[placeₑ]."""
    w = width(table)
    c = 0
    while c + 4 * w <= d:
        s0 = s1 = s2 = s3 = zeros(table)
        for e in range(size):
            x = splat(table, weights[e])
            t = base + places[at + e] * d + c
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
        s0 = zeros(table)
        for e in range(size):
            s0 = fma(splat(table, weights[e]), load(table, base + places[at + e] * d + c), s0)
        store(out, o + c, s0)
        c += w


@compiled
def scatter(weights, places, at, size, row, r, d, table, base):  # type: ignore[no-untyped-def]
    """table[placeₑ] += wₑ · row, for every e."""
    w = width(table)
    c = 0
    while c + 4 * w <= d:
        x0, x1 = load(row, r + c), load(row, r + c + w)
        x2, x3 = load(row, r + c + 2 * w), load(row, r + c + 3 * w)
        for e in range(size):
            x = splat(table, weights[e])
            t = base + places[at + e] * d + c
            store(table, t, fma(x, x0, load(table, t)))
            store(table, t + w, fma(x, x1, load(table, t + w)))
            store(table, t + 2 * w, fma(x, x2, load(table, t + 2 * w)))
            store(table, t + 3 * w, fma(x, x3, load(table, t + 3 * w)))
        c += 4 * w
    while c < d:
        x0 = load(row, r + c)
        for e in range(size):
            t = base + places[at + e] * d + c
            store(table, t, fma(splat(table, weights[e]), x0, load(table, t)))
        c += w


@compiled
def dots(row, r, table, base, d, places, at, size, out):  # type: ignore[no-untyped-def]
    """outₑ = row · table[placeₑ]."""
    w = width(table)
    for e in range(size):
        t = base + places[at + e] * d
        s0 = s1 = zeros(table)
        c = 0
        while c + 2 * w <= d:
            s0 = fma(load(row, r + c), load(table, t + c), s0)
            s1 = fma(load(row, r + c + w), load(table, t + c + w), s1)
            c += 2 * w
        if c < d:
            s0 = fma(load(row, r + c), load(table, t + c), s0)
        out[e] = total(s0) + total(s1)


# From scores to supports.


@compiled
def solve(theta, at, count, half, low):  # type: ignore[no-untyped-def]
    """The maximum of theta[at : at + count] and its exact τ in units of h(θ − max); low ≤ max + τ/h is a start.

    f(τ) = Σ [u − τ]₊^(1/h) − 1 is convex and falls. Each step solves it on the keys above the last τ; for h = ½ that
    step can end above the root, the next one, on fewer keys, then ends below. Done when no key enters or leaves.
    Writes one vector beyond the end.
    """
    w = width(theta)
    for e in range(count, count + w):
        theta[at + e] = -np.inf
    zero, halves, ones = zeros(theta), splat(theta, half), splat(theta, 1.0)
    tops = load(theta, at)
    for e in range(w, count, w):
        tops = larger(tops, load(theta, at + e))
    top = largest(tops)
    down = splat(theta, -top)
    tau = max(-1.0, (low - top) * half)
    last, turns = -1, 0
    while True:
        k, s1, s2, minus = 0, zero, zero, splat(theta, -tau)
        for e in range(0, count, w):
            u = fma(halves, fma(ones, load(theta, at + e), down), minus)
            k += count_bits(above(u, zero))
            u = larger(u, zero)
            s1 = fma(ones, u, s1)
            s2 = fma(u, u, s2)
        sum1, sum2 = float(total(s1)), float(total(s2))
        if half == 1.0:
            tau += (sum1 - 1.0) / k
        else:
            root = sum1 * sum1 - k * (sum2 - 1.0)
            tau += (sum2 - 1.0) / (sum1 + (np.sqrt(root) if root > 0.0 and turns < 16 else sum1))
        turns += 1
        if k == last:
            return top, tau
        last = k


@compiled
def tile(queries, q, panels, p, d, floors, f, out, bits):  # type: ignore[no-untyped-def]
    """Scores of 6 queries and 2 vectors of keys; True if any is above its row's floor, then out and bits tell which."""
    w = width(panels)
    a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = e0 = e1 = f0 = f1 = zeros(panels)
    for _ in range(d):
        x, y = load(panels, p), load(panels, p + w)
        p += 2 * w
        s = splat(panels, queries[q])
        a0, a1 = fma(s, x, a0), fma(s, y, a1)
        s = splat(panels, queries[q + 1])
        b0, b1 = fma(s, x, b0), fma(s, y, b1)
        s = splat(panels, queries[q + 2])
        c0, c1 = fma(s, x, c0), fma(s, y, c1)
        s = splat(panels, queries[q + 3])
        d0, d1 = fma(s, x, d0), fma(s, y, d1)
        s = splat(panels, queries[q + 4])
        e0, e1 = fma(s, x, e0), fma(s, y, e1)
        s = splat(panels, queries[q + 5])
        f0, f1 = fma(s, x, f0), fma(s, y, f1)
        q += TALL
    s = splat(panels, floors[f])
    a = above(a0, s) | above(a1, s) << w
    s = splat(panels, floors[f + 1])
    b = above(b0, s) | above(b1, s) << w
    s = splat(panels, floors[f + 2])
    c = above(c0, s) | above(c1, s) << w
    s = splat(panels, floors[f + 3])
    dd = above(d0, s) | above(d1, s) << w
    s = splat(panels, floors[f + 4])
    e = above(e0, s) | above(e1, s) << w
    s = splat(panels, floors[f + 5])
    ff = above(f0, s) | above(f1, s) << w
    if a | b | c | dd | e | ff == 0:
        return False
    bits[0], bits[1], bits[2], bits[3], bits[4], bits[5] = a, b, c, dd, e, ff
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
def pack(start, stop, keys, panels):  # type: ignore[no-untyped-def]
    """Lay out keys (B, n, d) as tiles read them: panels (B, n / 2w, d, 2w), zeros beyond n; slices start to stop."""
    n, d = keys.shape[1:]
    wide = panels.shape[3]
    for b in range(start, stop):
        for p in range(panels.shape[1]):
            for x in range(wide):
                j = p * wide + x
                if j < n:
                    for c in range(d):
                        panels[b, p, c, x] = keys[b, j, c]
                else:
                    panels[b, p, :, x] = 0


@compiled
def tighten(theta, places, at, count, half, low):  # type: ignore[no-untyped-def]
    """Raise a row's floor to the τ of its survivors, and drop those that are not above it: (how many stay, floor)."""
    top, tau = solve(theta, at, count, half, low)
    floor = theta.dtype.type(top + tau / half)
    floor -= (abs(floor) + abs(top) + 1) * theta.dtype.type(4 * np.finfo(theta.dtype).eps)  # rounding drops no key
    kept = at
    for e in range(at, at + count):
        x, j = theta[e], places[e]
        theta[kept], places[kept] = x, j
        kept += x > floor
    return kept - at, floor


@compiled
def search(b, rows, size, query, panels, lo, hi, mask, steps, half, floors, counts, theta, places, stride):  # type: ignore[no-untyped-def]
    """Walk over the keys with up to GROUP rows of slice b; row r's survivors are at [r * stride :][: counts[r]].

    floors are where the rows start: −inf, or a bound known from before. A row with a NaN or +inf has count BROKEN.
    """
    d, wide = query.shape[2], panels.shape[3]
    base = b * panels.shape[1] * wide
    queries = np.zeros(GROUP * d, query.dtype)
    out = np.empty(TALL * wide, query.dtype)
    bits = np.empty(TALL, np.int64)
    limits = np.full(GROUP, FIRST)
    begins, ends = np.zeros(GROUP, np.int64), np.zeros(GROUP, np.int64)
    spans = np.empty((GROUP // TALL, 2), np.int64)  # of each tile's rows together
    spans[:, 0], spans[:, 1] = panels.shape[1] * wide, 0
    for r in range(size):
        i, t = rows[r], r // TALL
        for c in range(d):
            queries[(t * d + c) * TALL + r % TALL] = query[b, i, c]
        counts[r] = 0
        begins[r], ends[r] = lo[b, i], hi[b, i]
        if begins[r] < ends[r]:
            spans[t, 0], spans[t, 1] = min(spans[t, 0], begins[r]), max(spans[t, 1], ends[r])
    for j in range(spans[:, 0].min() // wide * wide, spans[:, 1].max(), wide):
        for t in range(GROUP // TALL):
            if j >= spans[t, 1] or j + wide <= spans[t, 0]:
                continue
            if not tile(queries, t * TALL * d, panels, (base + j) * d, d, floors, t * TALL, out, bits):
                continue
            for r in range(TALL):
                left = bits[r]
                if left == 0:
                    continue
                row = t * TALL + r
                begin, end, at, count = begins[row] - j, ends[row] - j, row * stride, counts[row]
                if begin > 0:
                    left = left >> begin << begin if begin < wide else 0
                if end < wide:
                    left = left & ((1 << end) - 1) if end > 0 else 0
                while left != 0:
                    x = first_bit(left)
                    left &= left - 1
                    if mask.size > 0 and not mask[b * steps[0] + rows[row] * steps[1] + (j + x) * steps[2]]:
                        continue
                    score = out[r * wide + x]
                    if not score < np.inf:
                        count, ends[row] = BROKEN, 0
                        break
                    theta[at + count], places[at + count] = score, j + x
                    count += 1
                if count >= limits[row]:
                    count, floors[row] = tighten(theta, places, at, count, half, floors[row])
                    limits[row] = max(FIRST, 2 * count)
                counts[row] = count


@compiled
def finish(theta, places, at, count, half, low):  # type: ignore[no-untyped-def]
    """Solve a row: survivors become its support, theta becomes h(θ − max) − τ > 0. The size of the support."""
    if count == 0:
        return 0
    top, tau = solve(theta, at, count, half, low)
    top, tau, half = theta.dtype.type(top), theta.dtype.type(tau), theta.dtype.type(half)
    kept = at
    for e in range(at, at + count):
        x, j = (theta[e] - top) * half - tau, places[e]
        theta[kept], places[kept] = x, j
        kept += x > 0
    return kept - at


@compiled
def power(s, at, size, half, p):  # type: ignore[no-untyped-def]
    """Weights of a support: p = s^(1/h)."""
    for e in range(size):
        x = s[at + e]
        p[e] = x if half == 1.0 else x * x


@compiled
def forward(start, stop, ticket, query, panels, values, lo, hi, mask, steps, half, context, floors, begins, sizes, room,
            places, weights):  # type: ignore[no-untyped-def]
    """Context (B, m, d_v) of query (B, m, d); each group of rows may store up to GROUP · room entries of its supports.

    Per row: sizes how many (or AGAIN, BROKEN), begins where, floors a bound below τ for finding them again.
    """
    batch, m, _ = query.shape
    n, d = values.shape[1:]
    groups, stride = -(-m // GROUP), n + width(query) + panels.shape[3]
    theta, at_key = np.empty(GROUP * stride, query.dtype), np.empty(GROUP * stride, np.int32)
    p, floor = np.empty(n, query.dtype), np.empty(GROUP, query.dtype)
    rows, counts = np.empty(GROUP, np.int64), np.empty(GROUP, np.int64)
    while True:
        item = take(ticket)
        if item >= batch * groups:
            return
        b, i = item // groups, item % groups * GROUP
        size = min(GROUP, m - i)
        for r in range(size):
            rows[r] = i + r
        floor[:] = -np.inf
        search(b, rows, size, query, panels, lo, hi, mask, steps, half, floor, counts, theta, at_key, stride)
        used, end = item * GROUP * room, (item + 1) * GROUP * room
        for r in range(size):
            at = r * stride
            if counts[r] == BROKEN:
                context[b, i + r] = np.nan
                kept = BROKEN
            else:
                kept = finish(theta, at_key, at, counts[r], half, floor[r])
                power(theta, at, kept, half, p)
                gather(p, at_key, at, kept, values, b * n * d, d, context, (b * m + i + r) * d)
            if room > 0:
                begins[b, i + r], sizes[b, i + r], floors[b, i + r] = used, kept, floor[r]
                if kept > end - used:
                    sizes[b, i + r] = AGAIN
                elif kept > 0:
                    for e in range(kept):
                        places[used + e], weights[used + e] = at_key[at + e], theta[at + e]
                    used += kept


@compiled
def pull(b, i, s, places, at, size, half, query, keys, values, grad, dq, dk, dv, base, p, dp):  # type: ignore[no-untyped-def]
    """Backward of one row on its support: dθ = Jdp with J = diag(s) − ssᵀ/Σs, s = 1 (h = 1) or √p (h = ½)."""
    m, d = query.shape[1:]
    n, d_v = values.shape[1:]
    row, wide_row = (b * m + i) * d, (b * m + i) * d_v
    dots(grad, wide_row, values, b * n * d_v, d_v, places, at, size, dp)
    above_, below = 0.0, 0.0
    for e in range(size):
        x = 1.0 if half == 1.0 else float(s[at + e])
        above_ += x * dp[e]
        below += x
    mean = above_ / below
    power(s, at, size, half, p)
    scatter(p, places, at, size, grad, wide_row, d_v, dv, base * d_v)
    for e in range(size):
        dp[e] = (1.0 if half == 1.0 else s[at + e]) * (dp[e] - mean)
    gather(dp, places, at, size, keys, b * n * d, d, dq, row)
    scatter(dp, places, at, size, query, row, d, dk, base * d)


@compiled
def backward(start, stop, ticket, query, keys, values, grad, panels, lo, hi, mask, steps, half, floors, begins, sizes,
             places, weights, dq, dk, dv):  # type: ignore[no-untyped-def]
    """dq (B, m, d), and dk (parts, B, n, d), dv (parts, B, n, d_v): the rows are shared between parts, to be summed."""
    batch, m, d = query.shape
    n, parts = keys.shape[1], dk.shape[0]
    tall = -(-m // parts)
    stride = n + width(query) + panels.shape[3]
    p, dp = np.empty(n, query.dtype), np.empty(n, query.dtype)
    theta, at_key = np.empty(GROUP * stride, query.dtype), np.empty(GROUP * stride, np.int32)
    floor, rows, counts = np.empty(GROUP, query.dtype), np.empty(GROUP, np.int64), np.empty(GROUP, np.int64)
    while True:
        item = take(ticket)
        if item >= batch * parts:
            return
        b, part = item // parts, item % parts
        base = (part * batch + b) * n
        again = 0
        last = min(m, (part + 1) * tall)
        for i in range(part * tall, last):
            if sizes[b, i] > 0:
                pull(b, i, weights, places, begins[b, i], sizes[b, i], half, query, keys, values, grad, dq, dk, dv,
                     base, p, dp)
            elif sizes[b, i] == AGAIN:
                rows[again], floor[again] = i, floors[b, i]
                again += 1
            else:
                missing = np.nan if sizes[b, i] == BROKEN else 0.0
                dq[b, i] = missing
                if sizes[b, i] == BROKEN:
                    dk[part, b, lo[b, i] : hi[b, i]] = missing
                    dv[part, b, lo[b, i] : hi[b, i]] = missing
            if again == GROUP or (again > 0 and i == last - 1):
                search(b, rows, again, query, panels, lo, hi, mask, steps, half, floor, counts, theta, at_key, stride)
                for r in range(again):
                    kept = finish(theta, at_key, r * stride, counts[r], half, floor[r])
                    pull(b, rows[r], theta, at_key, r * stride, kept, half, query, keys, values, grad, dq, dk, dv,
                         base, p, dp)
                again = 0
