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
    """The same where sums of four products are one instruction: 16 keys at once, as reading the query counts.

    An odd block at the end is computed twice.
    """
    room, quads = bounds.shape[1], wide // 4
    for j in range(first, last, 16):
        other = j + 8 if j + 8 < last else j
        base, more = j * (wide // 2), other * (wide // 2)
        row = 0
        while row + 3 <= rows:
            a = b = c = x = y = z = no_ints()
            q0 = row * quads
            for tile in range(0, wide // 8, 4):
                for g in range(4):
                    v, w = (
                        load_bytes(packed, base + 32 * (tile + g)),
                        load_bytes(packed, more + 32 * (tile + g)),
                    )
                    q = q0 + 2 * (tile + g)
                    k, h = low_nibbles(v), low_nibbles(w)
                    d, e, f = (
                        four_bytes(codes, q),
                        four_bytes(codes, q + quads),
                        four_bytes(codes, q + 2 * quads),
                    )
                    a, b, c = dots(a, k, d), dots(b, k, e), dots(c, k, f)
                    x, y, z = dots(x, h, d), dots(y, h, e), dots(z, h, f)
                    q += 1
                    k, h = high_nibbles(v), high_nibbles(w)
                    d, e, f = (
                        four_bytes(codes, q),
                        four_bytes(codes, q + quads),
                        four_bytes(codes, q + 2 * quads),
                    )
                    a, b, c = dots(a, k, d), dots(b, k, e), dots(c, k, f)
                    x, y, z = dots(x, h, d), dots(y, h, e), dots(z, h, f)
            scale, error = load(scales, j), load(errors, j)
            put_three(a, b, c, scale, error, facts, row, bounds, j)
            scale, error = load(scales, other), load(errors, other)
            put_three(x, y, z, scale, error, facts, row, bounds, other)
            row += 3
        while row < rows:
            a = b = x = y = no_ints()
            for tile in range(0, wide // 8, 4):
                for g in range(4):
                    v, w = (
                        load_bytes(packed, base + 32 * (tile + g)),
                        load_bytes(packed, more + 32 * (tile + g)),
                    )
                    q = row * quads + 2 * (tile + g)
                    d, e = four_bytes(codes, q), four_bytes(codes, q + 1)
                    a, b = dots(a, low_nibbles(v), d), dots(b, high_nibbles(v), e)
                    x, y = dots(x, low_nibbles(w), d), dots(y, high_nibbles(w), e)
            put_bounds(plus(a, b), load(scales, j), load(errors, j), facts, row, bounds, row * room + j)
            put_bounds(
                plus(x, y), load(scales, other), load(errors, other), facts, row, bounds, row * room + other
            )
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
