"""Keys as small integers: rotated, scaled, rounded, with the norm of what the rounding lost.

    k̂ⱼ = sⱼ cⱼ,    cᵢ from −8 to 7, or −64 to 63        εⱼ ≥ ‖R kⱼ − k̂ⱼ‖        R: Hadamard's rotation

A rotation changes no dot product and no norm, and spreads the few large dimensions that keys of trained
models have over all. Its blocks are the largest powers of two that divide the width. The scale of a key is
the best of a few. All is computed in float64; ε is rounded up.

Codes lie in blocks of 8 keys: 32 bytes are 4 neighbouring dimensions of 8 keys, with 4 bits the lower half of
a byte and, of the 4 dimensions after, the upper. Widths are filled up to a multiple of 32 with zeros.
"""

from functools import cache
from typing import Any

import numpy as np
import torch
from numba.np.numpy_support import carray

from regard.kernels.common.compiled import compiled
from regard.kernels.common.native import callback, doubles, octets, stored
from regard.kernels.common.row_loops import inlined
from regard.kernels.decoding.append_arguments import INTEGERS

FULL = np.array([1.0, 0.94, 0.88, 0.82, 0.76, 0.7])  # of the largest number in a key, what the last level is
LEAST = 1e-30  # scale: a key of zeros has one too
UP = 1.0 + 1e-6  # a factor that makes an upper bound of a number with rounding errors in float64
TILE = 32  # dimensions


@inlined
def rotate(x: Any) -> None:
    """Turn the numbers x by Hadamard's rotation, in blocks of the largest power of two that divides them."""
    d = len(x)
    block = d & -d
    w = 1
    while w < block:
        for a in range(0, d, 2 * w):
            for i in range(a, a + w):
                y, z = x[i], x[i + w]
                x[i], x[i + w] = y + z, y - z
        w *= 2
    one = 1.0 / np.sqrt(float(block))
    for i in range(d):
        x[i] *= one


@inlined
def rounded(x: Any, amax: float, full: float, levels: float, codes: Any) -> Any:
    """(scale, squared norm of the error) of numbers x at this scale; their codes."""
    scale = np.float32(max(full * amax / levels, LEAST))
    s, lost = np.float64(scale), 0.0
    one = 1.0 / s
    for i in range(len(x)):
        c = min(max(np.rint(x[i] * one), -levels - 1.0), levels)
        codes[i] = c
        e = x[i] - c * s
        lost += e * e
    return scale, lost


@inlined
def pack(codes: Any, zero: int, j: int, bits: int, d: int, packed: Any) -> None:
    """Write the codes of key j, each plus `zero`, where a scan reads them; packed is flat."""
    wide = (d + TILE - 1) // TILE * TILE
    t, block = j % 8, j // 8
    if bits == 4:
        base = block * wide * 4 + 4 * t
        for i in range(0, wide, 8):
            for r in range(4):
                low = codes[i + r] + zero if i + r < d else zero
                high = codes[i + 4 + r] + zero if i + 4 + r < d else zero
                packed[base + i * 4 + r] = np.uint8(int(low) | (int(high) << 4))
    else:
        base = block * wide * 8 + 4 * t
        for i in range(0, wide, 4):
            for r in range(4):
                packed[base + i * 8 + r] = np.uint8(codes[i + r] + zero if i + r < d else zero)


@compiled
def encode(
    keys: Any, first: int, last: int, bits: int, packed: Any, scales: Any, errors: Any, norms: Any
) -> None:
    """Codes of keys (rows, capacity, d) from first to last, of every row.

    packed (rows, bytes), scales and errors (rows, capacity or more) are written; norms (rows, 2) are the
    largest ‖k̂‖ and ‖k‖ so far, and become infinite with a key that is not finite.
    """
    rows, _, d = keys.shape
    levels, zero = (7.0, 8) if bits == 4 else (63.0, 64)
    x, codes, best = np.empty(d), np.empty(d), np.empty(d)
    for row in range(rows):
        for j in range(first, last):
            size, amax = 0.0, 0.0
            for i in range(d):
                x[i] = np.float64(keys[row, j, i])
                size += x[i] * x[i]
            if not size < 1e60:
                norms[row, 0] = norms[row, 1] = np.inf
                best[:] = 0.0
                scale, lost = np.float32(0.0), 0.0
            else:
                rotate(x)
                for i in range(d):
                    amax = max(amax, abs(x[i]))
                scale, lost = rounded(x, amax, FULL[0], levels, best)
                for f in range(1, len(FULL)):
                    other, less = rounded(x, amax, FULL[f], levels, codes)
                    if less < lost:
                        scale, lost = other, less
                        for i in range(d):
                            best[i] = codes[i]
                near = 0.0
                for i in range(d):
                    near += best[i] * best[i]
                norms[row, 0] = max(norms[row, 0], np.sqrt(near) * np.float64(scale) * UP)
                norms[row, 1] = max(norms[row, 1], np.sqrt(size) * UP)
            scales[row, j] = scale
            errors[row, j] = np.float32(np.sqrt(lost) * UP)
            pack(best, zero, j, bits, d, packed[row])


@cache
def compiled_append() -> Any:
    """`append` as something that ctypes calls, with the address of `Appended`."""
    return callback(append, INTEGERS, (), torch.float32)


def append(struct: Any) -> None:
    """Write the keys and values of a token behind the first `at` of a cache, and their codes."""
    args = carray(struct, 1)[0]
    kind, rows, capacity, room, at = args.kind, args.rows, args.capacity, args.room, args.at
    d, d_v = args.d, args.d_v
    keys = carray(stored(args.keys, kind), (rows, capacity, d))
    values = carray(stored(args.values, kind), (rows, capacity, d_v))
    new_keys = carray(stored(args.new_keys, kind), (rows, d))
    new_values = carray(stored(args.new_values, kind), (rows, d_v))
    for row in range(rows):
        for i in range(d):
            keys[row, at, i] = new_keys[row, i]
        for i in range(d_v):
            values[row, at, i] = new_values[row, i]
    encode(
        keys, at, at + 1, args.bits, carray(octets(args.packed, kind), (rows, room * args.each)),
        carray(stored(args.scales, kind), (rows, room)), carray(stored(args.errors, kind), (rows, room)),
        carray(doubles(args.norms, kind), (rows, 2)),
    )  # fmt: skip
