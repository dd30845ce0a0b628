"""Sums over the entries of a support: places are rows of a table whose width d is a multiple of a vector."""

from typing import Any

from regard.kernels.common.row_loops import inlined
from regard.kernels.common.simd import add, fma, get, load, put, splat, store, total, width, zeros


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
