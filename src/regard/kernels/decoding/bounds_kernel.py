"""Upper bounds of scores from codes: the scan that reads every key of a cache, as small integers.

    q·kⱼ ≤ s_q sⱼ Σᵢ cᵢ(q) cᵢ(kⱼ) + ‖q‖ εⱼ + ‖q − q̂‖ max‖k̂‖ + slack

The query is rotated as the keys are and rounded to 8 bits. The sums of integers are exact; `slack` covers the
rounding of everything else, and of the score itself: docs/certified_decoding.md has the proof.
"""

from typing import Any

import numpy as np

from regard.kernels.common.row_loops import inlined
from regard.kernels.common.simd import add, fma, load, splat, store, zeros
from regard.kernels.decoding.byte_vectors import (
    as_floats,
    byte_products,
    dots,
    four_bytes,
    has_byte_dots,
    high_nibbles,
    load_bytes,
    low_nibbles,
    no_ints,
    no_shorts,
    pair_sums,
    plus,
)
from regard.kernels.decoding.key_codes_kernel import LEAST, UP, rotate

STEP, OFFSET, NORM, MORE, SLACK = range(5)  # what is known of a query
UNIT = 2.0**-24  # rounding of float32
LARGEST = 1e37  # of ‖q‖ (max‖k̂‖ + max‖k‖), so that nothing overflows


@inlined
def prepare(query: Any, row: int, norms: Any, zero: float, turned: Any, codes: Any, facts: Any) -> bool:
    """Round a query to codes (wide,) and set its facts (5,). Whether all is finite."""
    d, size, amax = query.shape[1], 0.0, 0.0
    for i in range(d):
        turned[i] = np.float64(query[row, i])
        size += turned[i] * turned[i]
    norm = np.sqrt(size) * UP
    if not norm * (norms[0] + norms[1]) < LARGEST:
        return False
    rotate(turned)
    for i in range(d):
        amax = max(amax, abs(turned[i]))
    step = np.float64(np.float32(max(amax / 127.0, LEAST)))
    one, lost, whole = 1.0 / step, 0.0, 0.0
    for i in range(d):
        c = min(max(np.rint(turned[i] * one), -127.0), 127.0)
        e = turned[i] - c * step
        lost += e * e
        whole += c
        codes[i] = np.int8(c)
    slack = (d + 32) * UNIT * norm * (norms[0] + norms[1]) + 1e-35
    facts[STEP], facts[OFFSET], facts[NORM] = step, zero * whole, norm * UP
    facts[MORE] = (np.sqrt(lost) * norms[0] + slack) * UP
    facts[SLACK] = slack
    return True


@inlined
def put_bounds(total: Any, scale: Any, error: Any, facts: Any, row: int, bounds: Any, at: int) -> None:
    """The bounds of 8 keys for one query, from the sums of products of codes."""
    whole = add(as_floats(total), splat(bounds, -facts[row, OFFSET]))  # exact: integers below 2²⁴
    near = fma(whole, scale, zeros(bounds))
    far = fma(error, splat(bounds, facts[row, NORM]), splat(bounds, facts[row, MORE]))
    store(bounds, at, fma(near, splat(bounds, facts[row, STEP]), far))


@inlined
def put_three(
    a: Any, b: Any, c: Any, scale: Any, error: Any, facts: Any, row: int, bounds: Any, j: int
) -> None:
    """The bounds of the keys j … j + 7 for the queries row … row + 2."""
    room = bounds.shape[1]
    put_bounds(a, scale, error, facts, row, bounds, row * room + j)
    put_bounds(b, scale, error, facts, row + 1, bounds, (row + 1) * room + j)
    put_bounds(c, scale, error, facts, row + 2, bounds, (row + 2) * room + j)


@inlined
def scan4_pairs(
    packed: Any, scales: Any, errors: Any, codes: Any, wide: int, facts: Any, rows: int, first: int,
    last: int, bounds: Any,
) -> None:  # fmt: skip
    """bounds[:rows, first : last] of 4-bit codes; first is a multiple of 8, last is rounded up to one."""
    room, quads = bounds.shape[1], wide // 4
    for j in range(first, last, 8):
        scale, error, base = load(scales, j), load(errors, j), j * (wide // 2)
        row = 0
        while row + 3 <= rows:
            a, b, c = no_ints(), no_ints(), no_ints()
            q0 = row * quads
            for tile in range(0, wide // 8, 4):  # 8 products of at most 3,810 fit into 16 bits
                x, y, z = no_shorts(), no_shorts(), no_shorts()
                for g in range(4):
                    v, q = load_bytes(packed, base + 32 * (tile + g)), q0 + 2 * (tile + g)
                    k = low_nibbles(v)
                    x = plus(x, byte_products(k, four_bytes(codes, q)))
                    y = plus(y, byte_products(k, four_bytes(codes, q + quads)))
                    z = plus(z, byte_products(k, four_bytes(codes, q + 2 * quads)))
                    k = high_nibbles(v)
                    x = plus(x, byte_products(k, four_bytes(codes, q + 1)))
                    y = plus(y, byte_products(k, four_bytes(codes, q + quads + 1)))
                    z = plus(z, byte_products(k, four_bytes(codes, q + 2 * quads + 1)))
                a, b, c = plus(a, pair_sums(x)), plus(b, pair_sums(y)), plus(c, pair_sums(z))
            put_three(a, b, c, scale, error, facts, row, bounds, j)
            row += 3
        while row < rows:
            a = no_ints()
            for tile in range(0, wide // 8, 4):
                x = no_shorts()
                for g in range(4):
                    v, q = load_bytes(packed, base + 32 * (tile + g)), row * quads + 2 * (tile + g)
                    x = plus(x, byte_products(low_nibbles(v), four_bytes(codes, q)))
                    x = plus(x, byte_products(high_nibbles(v), four_bytes(codes, q + 1)))
                a = plus(a, pair_sums(x))
            put_bounds(a, scale, error, facts, row, bounds, row * room + j)
            row += 1


@inlined
def scan4_dots(
    packed: Any, scales: Any, errors: Any, codes: Any, wide: int, facts: Any, rows: int, first: int,
    last: int, bounds: Any,
) -> None:  # fmt: skip
    """The same where sums of four products are one instruction: 32 keys at once, as reading the query counts.

    Where fewer are left, the first 8 of them are computed again.
    """
    room, quads = bounds.shape[1], wide // 4
    for j in range(first, last, 32):
        j1, j2 = j + 8 if j + 8 < last else j, j + 16 if j + 16 < last else j
        j3 = j + 24 if j + 24 < last else j
        b0, b1, b2, b3 = j * (wide // 2), j1 * (wide // 2), j2 * (wide // 2), j3 * (wide // 2)
        row = 0
        while row + 3 <= rows:
            x0 = x1 = x2 = x3 = y0 = y1 = y2 = y3 = z0 = z1 = z2 = z3 = no_ints()
            for g in range(wide // 8):
                q = row * quads + 2 * g
                v0, v1 = load_bytes(packed, b0 + 32 * g), load_bytes(packed, b1 + 32 * g)
                v2, v3 = load_bytes(packed, b2 + 32 * g), load_bytes(packed, b3 + 32 * g)
                c, d, e = four_bytes(codes, q), four_bytes(codes, q + quads), four_bytes(codes, q + 2 * quads)
                k0, k1, k2, k3 = low_nibbles(v0), low_nibbles(v1), low_nibbles(v2), low_nibbles(v3)
                x0, x1, x2, x3 = dots(x0, k0, c), dots(x1, k1, c), dots(x2, k2, c), dots(x3, k3, c)
                y0, y1, y2, y3 = dots(y0, k0, d), dots(y1, k1, d), dots(y2, k2, d), dots(y3, k3, d)
                z0, z1, z2, z3 = dots(z0, k0, e), dots(z1, k1, e), dots(z2, k2, e), dots(z3, k3, e)
                q += 1
                c, d, e = four_bytes(codes, q), four_bytes(codes, q + quads), four_bytes(codes, q + 2 * quads)
                k0, k1, k2, k3 = high_nibbles(v0), high_nibbles(v1), high_nibbles(v2), high_nibbles(v3)
                x0, x1, x2, x3 = dots(x0, k0, c), dots(x1, k1, c), dots(x2, k2, c), dots(x3, k3, c)
                y0, y1, y2, y3 = dots(y0, k0, d), dots(y1, k1, d), dots(y2, k2, d), dots(y3, k3, d)
                z0, z1, z2, z3 = dots(z0, k0, e), dots(z1, k1, e), dots(z2, k2, e), dots(z3, k3, e)
            put_three(x0, y0, z0, load(scales, j), load(errors, j), facts, row, bounds, j)
            put_three(x1, y1, z1, load(scales, j1), load(errors, j1), facts, row, bounds, j1)
            put_three(x2, y2, z2, load(scales, j2), load(errors, j2), facts, row, bounds, j2)
            put_three(x3, y3, z3, load(scales, j3), load(errors, j3), facts, row, bounds, j3)
            row += 3
        while row < rows:
            x0 = x1 = x2 = x3 = no_ints()
            for g in range(wide // 8):
                v0, v1 = load_bytes(packed, b0 + 32 * g), load_bytes(packed, b1 + 32 * g)
                v2, v3 = load_bytes(packed, b2 + 32 * g), load_bytes(packed, b3 + 32 * g)
                q = row * quads + 2 * g
                c, d = four_bytes(codes, q), four_bytes(codes, q + 1)
                x0, x1 = dots(x0, low_nibbles(v0), c), dots(x1, low_nibbles(v1), c)
                x2, x3 = dots(x2, low_nibbles(v2), c), dots(x3, low_nibbles(v3), c)
                x0, x1 = dots(x0, high_nibbles(v0), d), dots(x1, high_nibbles(v1), d)
                x2, x3 = dots(x2, high_nibbles(v2), d), dots(x3, high_nibbles(v3), d)
            at = row * room
            put_bounds(x0, load(scales, j), load(errors, j), facts, row, bounds, at + j)
            put_bounds(x1, load(scales, j1), load(errors, j1), facts, row, bounds, at + j1)
            put_bounds(x2, load(scales, j2), load(errors, j2), facts, row, bounds, at + j2)
            put_bounds(x3, load(scales, j3), load(errors, j3), facts, row, bounds, at + j3)
            row += 1


scan4 = scan4_dots if has_byte_dots() else scan4_pairs


@inlined
def scan7(
    packed: Any, scales: Any, errors: Any, codes: Any, wide: int, facts: Any, rows: int, first: int,
    last: int, bounds: Any,
) -> None:  # fmt: skip
    """The same of 7-bit codes."""
    room, quads = bounds.shape[1], wide // 4
    for j in range(first, last, 8):
        scale, error, base = load(scales, j), load(errors, j), j * wide
        row = 0
        while row + 3 <= rows:
            a, b, c = no_ints(), no_ints(), no_ints()
            q0 = row * quads
            for tile in range(0, quads, 8):
                for g in range(8):
                    k, q = load_bytes(packed, base + 32 * (tile + g)), q0 + tile + g
                    a = dots(a, k, four_bytes(codes, q))
                    b = dots(b, k, four_bytes(codes, q + quads))
                    c = dots(c, k, four_bytes(codes, q + 2 * quads))
            put_three(a, b, c, scale, error, facts, row, bounds, j)
            row += 3
        while row < rows:
            a = no_ints()
            for tile in range(0, quads, 8):
                for g in range(8):
                    k = load_bytes(packed, base + 32 * (tile + g))
                    a = dots(a, k, four_bytes(codes, row * quads + tile + g))
            put_bounds(a, scale, error, facts, row, bounds, row * room + j)
            row += 1
