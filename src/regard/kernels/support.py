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
def splat(typing: Any, x: Any) -> Any:
    """A vector that holds x everywhere."""
    lanes = Lanes(x)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        nothing = ir.Constant(context.get_value_type(lanes), ir.Undefined)
        one = builder.insert_element(nothing, args[0], ir.IntType(32)(0))
        return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(ir.IntType(32), lanes.width), None))

    return lanes(x), code


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
            x = splat(weights[e])
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
            s0 = fma(splat(weights[e]), load(table, base + places[at + e] * d + c), s0)
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
            x = splat(weights[e])
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
            store(table, t, fma(splat(weights[e]), x0, load(table, t)))
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
