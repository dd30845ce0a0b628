"""Vectors of 256 bits as values inside kernels.

LLVM does not find the tile of sparse attention in a loop over numbers, so the tile is written with these.
Each function is a few instructions of LLVM, so they run on whatever vectors the machine has.
"""

from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.extending import models


def intrinsic(function: Any) -> Any:
    """Numba's, which gives functions no types of use."""
    return extending.intrinsic(function)


class Vector(types.Type):
    """8 float32 or 4 float64."""

    def __init__(self, dtype: Any) -> None:
        self.dtype, self.width = dtype, 256 // dtype.bitwidth
        super().__init__(name=f"Vector({dtype} x {self.width})")


@extending.register_model(Vector)
class VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Any) -> None:
        element = manager.lookup(vector.dtype).get_value_type()
        made: Any = super().__init__  # Numba gives it no types
        made(manager, vector, ir.VectorType(element, vector.width))


def computed(dtype: Any) -> Any:
    """What stored numbers are computed with: uint16 is bfloat16 here, int16 float16, and both are float32."""
    return types.float32 if dtype in (types.uint16, types.int16) else dtype


def _widened(builder: Any, stored: Any, dtype: Any) -> Any:
    """A vector or a number as it is computed with."""
    if dtype not in (types.uint16, types.int16):
        return stored
    shape: Any = (
        (lambda kind: ir.VectorType(kind, stored.type.count))
        if hasattr(stored.type, "count")
        else (lambda kind: kind)
    )
    if dtype is types.int16:
        return builder.fpext(builder.bitcast(stored, shape(ir.HalfType())), shape(ir.FloatType()))
    wide = builder.zext(stored, shape(ir.IntType(32)))  # the upper half of a float32
    upper = builder.shl(
        wide, ir.Constant(wide.type, 16 if wide.type == ir.IntType(32) else [16] * stored.type.count)
    )
    return builder.bitcast(upper, shape(ir.FloatType()))


def _place(context: Any, builder: Any, array: Any, value: Any, at: Any, kind: Any) -> Any:
    data = context.make_array(array)(context, builder, value).data
    return builder.bitcast(builder.gep(data, [at]), kind.as_pointer())


def _everywhere(builder: Any, vector: Any, number: Any) -> Any:
    nothing, zero = ir.Constant(vector, ir.Undefined), ir.IntType(32)(0)
    one = builder.insert_element(nothing, number, zero)
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(zero.type, vector.count), None))


def _folded(builder: Any, vector: Any, combine: Any) -> Any:
    while vector.type.count > 1:
        size = vector.type.count // 2
        kind = ir.VectorType(ir.IntType(32), size)
        low, high = ir.Constant(kind, [*range(size)]), ir.Constant(kind, [*range(size, 2 * size)])
        halves = (builder.shuffle_vector(vector, vector, half) for half in (low, high))
        vector = combine(builder, *halves)
    return builder.extract_element(vector, ir.IntType(32)(0))


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


@intrinsic
def width(typing: Any, array: Any) -> Any:
    """How many elements of this array a vector holds."""
    return types.intp(array), lambda context, builder, sig, args: ir.IntType(64)(Vector(array.dtype).width)


@intrinsic
def zeros(typing: Any, array: Any) -> Any:
    """Zeros, of the array's dtype."""
    vector = Vector(array.dtype)
    return vector(array), lambda context, builder, sig, args: ir.Constant(
        context.get_value_type(vector), None
    )


@intrinsic
def load(typing: Any, array: Any, at: Any) -> Any:
    """The vector that begins at a flat index of a contiguous array."""
    vector = Vector(array.dtype)

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = _place(context, builder, array, args[0], args[1], context.get_value_type(vector))
        return builder.load(place, align=array.dtype.bitwidth // 8)

    return vector(array, types.intp), code


@intrinsic
def load_wide(typing: Any, array: Any, at: Any) -> Any:
    """The vector that begins at a flat index, as it is computed with: float32 if it is stored in half."""
    vector = Vector(computed(array.dtype))

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.VectorType(context.get_value_type(array.dtype), vector.width)
        place = _place(context, builder, array, args[0], args[1], kind)
        return _widened(builder, builder.load(place, align=array.dtype.bitwidth // 8), array.dtype)

    return vector(array, types.intp), code


@intrinsic
def get_wide(typing: Any, array: Any, at: Any) -> Any:
    """array[at], likewise."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = _place(context, builder, array, args[0], args[1], context.get_value_type(array.dtype))
        return _widened(builder, builder.load(place), array.dtype)

    return computed(array.dtype)(array, types.intp), code


@intrinsic
def store(typing: Any, array: Any, at: Any, vector: Any) -> Any:
    """Write a vector at a flat index of a contiguous array."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(
            args[2],
            _place(context, builder, array, args[0], args[1], args[2].type),
            align=array.dtype.bitwidth // 8,
        )
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), code


@intrinsic
def get(typing: Any, array: Any, at: Any) -> Any:
    """array[at] without Python's meaning of a negative index, which costs as much as the rest."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(
            _place(context, builder, array, args[0], args[1], context.get_value_type(array.dtype))
        )

    return array.dtype(array, types.intp), code


@intrinsic
def put(typing: Any, array: Any, at: Any, x: Any) -> Any:
    """array[at] = x, likewise."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        number = context.cast(builder, args[2], x, array.dtype)
        builder.store(number, _place(context, builder, array, args[0], args[1], number.type))
        return context.get_dummy_value()

    return types.void(array, types.intp, x), code


@intrinsic
def splat(typing: Any, array: Any, x: Any) -> Any:
    """The number x everywhere, in the array's dtype."""
    vector = Vector(array.dtype)

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        number = context.cast(builder, args[1], x, vector.dtype)
        return _everywhere(builder, context.get_value_type(vector), number)

    return vector(array, x), code


@intrinsic
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """ab + c."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.fadd(builder.fmul(*args[:2], flags=("contract",)), args[2], flags=("contract",))

    return a(a, b, c), code


@intrinsic
def add(typing: Any, a: Any, b: Any) -> Any:
    """a + b, never in another order."""
    return a(a, b), lambda context, builder, sig, args: builder.fadd(*args)


@intrinsic
def larger(typing: Any, a: Any, b: Any) -> Any:
    """The larger of two, element by element."""
    return a(a, b), lambda context, builder, sig, args: _larger(builder, *args)


@intrinsic
def largest(typing: Any, a: Any) -> Any:
    """The largest element."""
    return a.dtype(a), lambda context, builder, sig, args: _folded(builder, args[0], _larger)


@intrinsic
def total(typing: Any, a: Any) -> Any:
    """The sum of the elements."""
    return a.dtype(a), lambda context, builder, sig, args: _folded(builder, args[0], ir.IRBuilder.fadd)


@intrinsic
def above(typing: Any, a: Any, b: Any) -> Any:
    """Bit j: a[j] > b[j], or one of the two is NaN."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bits = builder.bitcast(builder.fcmp_unordered(">", *args), ir.IntType(a.width))
        return builder.zext(bits, ir.IntType(64))

    return types.int64(a, b), code


@intrinsic
def first_bit(typing: Any, bits: Any) -> Any:
    """The place of the lowest bit that is set."""
    never = ir.IntType(1)(1)  # comes a zero
    return types.int64(types.int64), lambda context, builder, sig, args: builder.cttz(args[0], never)


@intrinsic
def count_bits(typing: Any, bits: Any) -> Any:
    """How many bits are set."""
    return types.int64(types.int64), lambda context, builder, sig, args: builder.ctpop(args[0])


@intrinsic
def take(typing: Any, ticket: Any) -> Any:
    """The next number of a counter, an int64 array of one element, that threads share."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(ticket)(context, builder, args[0]).data
        return builder.atomic_rmw("add", data, ir.IntType(64)(1), "monotonic")

    return types.int64(ticket), code


@intrinsic
def arrive(typing: Any, counters: Any, at: Any) -> Any:
    """Add 1 to a counter that threads share, and get what it was; what they wrote before is seen after."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = _place(context, builder, counters, args[0], args[1], ir.IntType(64))
        return builder.atomic_rmw("add", place, ir.IntType(64)(1), "acq_rel")

    return types.int64(counters, types.intp), code


@intrinsic
def reached(typing: Any, counters: Any, at: Any) -> Any:
    """A counter that threads share; what was written before they arrived there is seen after."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = _place(context, builder, counters, args[0], args[1], ir.IntType(64))
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(counters, types.intp), code


@intrinsic
def put_totals(typing: Any, array: Any, at: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Write the sums of the elements of four vectors at a flat index, in a few instructions."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        size = args[2].type.count

        def joined(x: Any, y: Any, *halves: list[int]) -> Any:
            kind = ir.VectorType(ir.IntType(32), len(halves[0]))
            parts = (builder.shuffle_vector(x, y, ir.Constant(kind, half)) for half in halves)
            return builder.fadd(*parts)

        if size == 8:  # pairs within halves of a register, as its instructions have them
            pairs = [0, 2, 8, 10, 4, 6, 12, 14], [1, 3, 9, 11, 5, 7, 13, 15]
            found = joined(joined(*args[2:4], *pairs), joined(*args[4:6], *pairs), *pairs)
            found = joined(found, found, [0, 1, 2, 3], [4, 5, 6, 7])
        else:
            pairs = [0, 4, 2, 6], [1, 5, 3, 7]
            found = joined(joined(*args[2:4], *pairs), joined(*args[4:6], *pairs), [0, 1, 4, 5], [2, 3, 6, 7])
        place = _place(context, builder, array, args[0], args[1], found.type)
        builder.store(found, place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, a, b, c, d), code


@intrinsic
def prefetch(typing: Any, array: Any, at: Any) -> Any:
    """Ask for the memory at a flat index; it need not exist."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        i32, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        place = _place(context, builder, array, args[0], args[1], ir.IntType(8))
        fetch = builder.module.declare_intrinsic(
            "llvm.prefetch", [pointer], ir.FunctionType(ir.VoidType(), [pointer, i32, i32, i32])
        )
        builder.call(fetch, [place, i32(0), i32(3), i32(1)])  # to read, into every cache, data
        return context.get_dummy_value()

    return types.void(array, types.intp), code


@intrinsic
def claim(typing: Any, counter: Any, amount: Any) -> Any:
    """The number in a counter that threads share, an int64 array of one element, before adding to it."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(counter)(context, builder, args[0]).data
        return builder.atomic_rmw("add", data, args[1], "monotonic")

    return types.int64(counter, types.int64), code
