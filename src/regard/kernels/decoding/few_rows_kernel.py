"""A linear layer for a few rows: y = xWᵀ + b, where W is read once, in the order in which it is stored.

For so few rows the time is that of reading W, and the machine reads one stream faster than several: a row of
W is done with before the next begins. Threads share out blocks of outputs.
"""

from functools import cache
from typing import Any

import torch
from numba.np.numpy_support import carray

from regard.kernels.common.native import callback, floats, integers
from regard.kernels.common.row_loops import inlined
from regard.kernels.common.simd import add, fma, get, load, take, total, width, zeros
from regard.kernels.decoding.few_rows_arguments import INTEGERS

BLOCK = 64  # outputs that a thread takes at once


@cache
def compiled_rows(kind: torch.dtype) -> Any:
    """The kernel for numbers of this kind; it is called with the address of `Arguments`."""
    return callback(few_rows, INTEGERS, (), kind)


@inlined
def dot(x: Any, at: int, weight: Any, row: int, d: int) -> Any:
    """x[at : at + d] · weight[row : row + d]."""
    w = width(x)
    a = b = c = e = zeros(x)
    whole = d - d % (4 * w)
    for i in range(0, whole, 4 * w):
        j = i + w
        k, m = j + w, j + 2 * w
        a, b = fma(load(x, at + i), load(weight, row + i), a), fma(load(x, at + j), load(weight, row + j), b)
        c, e = fma(load(x, at + k), load(weight, row + k), c), fma(load(x, at + m), load(weight, row + m), e)
    for i in range(whole, d - d % w, w):
        a = fma(load(x, at + i), load(weight, row + i), a)
    found = total(add(add(a, b), add(c, e)))
    for i in range(d - d % w, d):
        found += get(x, at + i) * get(weight, row + i)
    return found


@inlined
def four_dots(x: Any, at: int, weight: Any, row: int, d: int) -> Any:
    """The same for four rows of x that follow each other: weight[row : row + d] is loaded once for them."""
    w, second, third, fourth = width(x), at + d, at + 2 * d, at + 3 * d
    a = b = c = e = f = g = h = o = zeros(x)
    whole = d - d % (2 * w)
    for i in range(0, whole, 2 * w):
        each, j = load(weight, row + i), i + w
        a, b = fma(load(x, at + i), each, a), fma(load(x, second + i), each, b)
        c, e = fma(load(x, third + i), each, c), fma(load(x, fourth + i), each, e)
        each = load(weight, row + j)
        f, g = fma(load(x, at + j), each, f), fma(load(x, second + j), each, g)
        h, o = fma(load(x, third + j), each, h), fma(load(x, fourth + j), each, o)
    p, q, r, s = total(add(a, f)), total(add(b, g)), total(add(c, h)), total(add(e, o))
    for i in range(whole, d):
        one = get(weight, row + i)
        p, q = p + one * get(x, at + i), q + one * get(x, second + i)
        r, s = r + one * get(x, third + i), s + one * get(x, fourth + i)
    return p, q, r, s


def few_rows(struct: Any) -> None:
    """y (rows, n) of x (rows, d), by as many threads as call it: see `few_rows_arguments`."""
    args = carray(struct, 1)[0]
    kind, rows, d, n = args.kind, args.rows, args.d, args.n
    x, y = carray(floats(args.x, kind), (rows, d)), carray(floats(args.y, kind), (rows, n))
    weight, bias = carray(floats(args.weight, kind), (n, d)), carray(floats(args.bias, kind), (n,))
    ticket = carray(integers(args.ticket, kind), (1,))
    fours = rows - rows % 4
    while True:
        first = take(ticket) * BLOCK
        if first >= n:
            return
        for i in range(first, min(first + BLOCK, n)):
            for row in range(0, fours, 4):
                p, q, r, s = four_dots(x, row * d, weight, i * d, d)
                y[row, i], y[row + 1, i], y[row + 2, i], y[row + 3, i] = p, q, r, s
            for row in range(fours, rows):
                y[row, i] = dot(x, row * d, weight, i * d, d)
            if args.bias != 0:
                for row in range(rows):
                    y[row, i] += bias[i]
