"""Sums over the entries of a support: places are rows of a table whose width d is a multiple of a vector."""

from typing import Any

from regard.kernels.common.row_loops import inlined
from regard.kernels.common.simd import add, fma, get, load, put, splat, store, total, width, zeros


@inlined
def load4(array: Any, at: int) -> Any:
    """The four vectors that begin at a flat index."""
    w = width(array)
    return load(array, at), load(array, at + w), load(array, at + 2 * w), load(array, at + 3 * w)


@inlined
def fma4(x: Any, a: Any, b: Any) -> Any:
    """x · a + b of four vectors each of a and b."""
    return fma(x, a[0], b[0]), fma(x, a[1], b[1]), fma(x, a[2], b[2]), fma(x, a[3], b[3])


@inlined
def store4(array: Any, at: int, vectors: Any) -> None:
    """Write four vectors at a flat index."""
    w = width(array)
    store(array, at, vectors[0])
    store(array, at + w, vectors[1])
    store(array, at + 2 * w, vectors[2])
    store(array, at + 3 * w, vectors[3])


@inlined
def gather(
    weights: Any, places: Any, start: int, stop: int, table: Any, base: int, d: int, out: Any, o: int
) -> None:
    """out += Σₑ wₑ · table[placeₑ]."""
    w = width(table)
    whole = d - d % (4 * w)
    for c in range(0, whole, 4 * w):
        sums = load4(out, o + c)
        for e in range(start, stop):
            row = load4(table, base + get(places, e) * d + c)
            sums = fma4(splat(table, get(weights, e)), row, sums)
        store4(out, o + c, sums)
    for c in range(whole, d, w):
        s = load(out, o + c)
        for e in range(start, stop):
            s = fma(splat(table, get(weights, e)), load(table, base + get(places, e) * d + c), s)
        store(out, o + c, s)


@inlined
def scatter(
    weights: Any, places: Any, start: int, stop: int, row: Any, r: int, d: int, table: Any, base: int
) -> None:
    """table[placeₑ] += wₑ · row."""
    w = width(table)
    whole = d - d % (4 * w)
    for c in range(0, whole, 4 * w):
        x = load4(row, r + c)
        for e in range(start, stop):
            t = base + get(places, e) * d + c
            store4(table, t, fma4(splat(table, get(weights, e)), x, load4(table, t)))
    for c in range(whole, d, w):
        x0 = load(row, r + c)
        for e in range(start, stop):
            t = base + get(places, e) * d + c
            store(table, t, fma(splat(table, get(weights, e)), x0, load(table, t)))


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
