"""Vectors of small integers inside kernels: products of 4-bit and 7-bit codes, by vpmaddubsw or vpdpbusd.

LLVM does not find these instructions in a loop over bytes, and without them a scan of codes is slower than
one of float32. Where the machine has no AVX2, nothing here may be compiled: see `has_byte_products`.
"""

from functools import cache
from typing import Any

from llvmlite import binding, ir
from numba import types

from regard.kernels.common.simd import Vector, intrinsic

I8, I16, I32 = (ir.IntType(bits) for bits in (8, 16, 32))
BYTES, SHORTS, INTS = ir.VectorType(I8, 32), ir.VectorType(I16, 16), ir.VectorType(I32, 8)
Bytes, Shorts, Ints, Floats = (
    Vector(types.int8),
    Vector(types.int16),
    Vector(types.int32),
    Vector(types.float32),
)


@cache
def _features() -> set[str]:
    """What the machine that Numba compiles for can do."""
    from numba.core import config as found

    config: Any = found
    if config.CPU_FEATURES:
        return {name[1:] for name in str(config.CPU_FEATURES).split(",") if name.startswith("+")}
    if config.CPU_NAME not in (None, "", "host"):
        return set()
    return {name for name, there in binding.get_host_cpu_features().items() if there}


def has_byte_products() -> bool:
    """Whether there is vpmaddubsw: AVX2."""
    return "avx2" in _features()


def has_byte_dots() -> bool:
    """Whether there is vpdpbusd for 256 bits: VNNI."""
    return {"avx512vnni", "avx512vl"} <= _features()


def _everywhere(kind: Any, x: int) -> Any:
    return ir.Constant(kind, [x] * kind.count)


def _at(context: Any, builder: Any, array: Any, value: Any, at: Any, kind: Any) -> Any:
    data = context.make_array(array)(context, builder, value).data
    return builder.bitcast(builder.gep(data, [at]), kind.as_pointer())


def _call(builder: Any, name: str, answer: Any, *arguments: Any) -> Any:
    kinds = [argument.type for argument in arguments]
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(answer, kinds), name)
    return builder.call(function, arguments)


@intrinsic
def load_bytes(typing: Any, array: Any, at: Any) -> Any:
    """32 bytes from a flat index of a contiguous array of bytes."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_at(context, builder, array, args[0], args[1], BYTES), align=1)

    return Bytes(array, types.intp), code


@intrinsic
def load_ints(typing: Any, array: Any, at: Any) -> Any:
    """8 numbers from a flat index of a contiguous array of int32."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_at(context, builder, array, args[0], args[1], INTS), align=4)

    return Ints(array, types.intp), code


@intrinsic
def four_bytes(typing: Any, array: Any, at: Any) -> Any:
    """The 4 bytes of one int32, 8 times."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        one = builder.load(_at(context, builder, array, args[0], args[1], I32), align=4)
        nothing = ir.Constant(INTS, ir.Undefined)
        first = builder.insert_element(nothing, one, I32(0))
        return builder.bitcast(builder.shuffle_vector(first, nothing, ir.Constant(INTS, None)), BYTES)

    return Bytes(array, types.intp), code


@intrinsic
def low_nibbles(typing: Any, a: Any) -> Any:
    """The lower 4 bits of each byte."""
    return Bytes(Bytes), lambda context, builder, sig, args: builder.and_(args[0], _everywhere(BYTES, 15))


@intrinsic
def high_nibbles(typing: Any, a: Any) -> Any:
    """The upper 4 bits of each byte."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        moved = builder.lshr(builder.bitcast(args[0], SHORTS), _everywhere(SHORTS, 4))
        return builder.and_(builder.bitcast(moved, BYTES), _everywhere(BYTES, 15))

    return Bytes(Bytes), code


@intrinsic
def byte_products(typing: Any, unsigned: Any, signed: Any) -> Any:
    """u₀s₀ + u₁s₁, u₂s₂ + u₃s₃, … as int16; nothing saturates while u ≤ 127 and |s| ≤ 127."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _call(builder, "llvm.x86.avx2.pmadd.ub.sw", SHORTS, *args)

    return Shorts(Bytes, Bytes), code


@intrinsic
def pair_sums(typing: Any, a: Any) -> Any:
    """a₀ + a₁, a₂ + a₃, … of int16 as int32."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _call(builder, "llvm.x86.avx2.pmadd.wd", INTS, args[0], _everywhere(SHORTS, 1))

    return Ints(Shorts), code


@intrinsic
def dots(typing: Any, total: Any, unsigned: Any, signed: Any) -> Any:
    """Four products of bytes added to each of 8 integers: vpdpbusd, or what it stands for."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if has_byte_dots():
            a, b = (builder.bitcast(one, INTS) for one in args[1:])
            return _call(builder, "llvm.x86.avx512.vpdpbusd.256", INTS, args[0], a, b)
        pairs = _call(builder, "llvm.x86.avx2.pmadd.ub.sw", SHORTS, *args[1:])
        four = _call(builder, "llvm.x86.avx2.pmadd.wd", INTS, pairs, _everywhere(SHORTS, 1))
        return builder.add(args[0], four)

    return Ints(Ints, Bytes, Bytes), code


@intrinsic
def plus(typing: Any, a: Any, b: Any) -> Any:
    """a + b of integers."""
    return a(a, b), lambda context, builder, sig, args: builder.add(*args)


@intrinsic
def no_shorts(typing: Any) -> Any:
    """16 zeros."""
    return Shorts(), lambda context, builder, sig, args: ir.Constant(SHORTS, None)


@intrinsic
def no_ints(typing: Any) -> Any:
    """8 zeros."""
    return Ints(), lambda context, builder, sig, args: ir.Constant(INTS, None)


@intrinsic
def as_floats(typing: Any, a: Any) -> Any:
    """8 integers as float32."""
    kind = ir.VectorType(ir.FloatType(), 8)
    return Floats(Ints), lambda context, builder, sig, args: builder.sitofp(args[0], kind)


@intrinsic
def where_above(typing: Any, a: Any, b: Any, x: Any, y: Any) -> Any:
    """x where a > b, y elsewhere."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args[:2]), *args[2:])

    return x(a, b, x, x), code
