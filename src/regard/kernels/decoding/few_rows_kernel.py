"""A linear layer for a few rows: y = xWᵀ + b, where W is read once, in the order in which it is stored.

For so few rows the time is that of reading W, and the machine reads one stream faster than several: for one
row of x, a row of W is done with before the next begins. Threads share out blocks of outputs.
"""

from functools import cache
from typing import Any

import torch
from numba.np.numpy_support import carray

from regard.kernels.common.native import callback, floats, integers
from regard.kernels.common.row_loops import inlined
from regard.kernels.common.simd import add, fma, get, load, put, take, total, width, zeros
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
def eight_dots(x: Any, at: int, weight: Any, row: int, d: int, y: Any, place: int, n: int) -> None:
    """The same for four rows of x and two of the weight, into y[place], y[place + 1], and each n further."""
    w, second, third, fourth, other = width(x), at + d, at + 2 * d, at + 3 * d, row + d
    a = b = c = e = f = g = h = o = zeros(x)
    whole = d - d % w
    for i in range(0, whole, w):
        one, two = load(weight, row + i), load(weight, other + i)
        each = load(x, at + i)
        a, b = fma(each, one, a), fma(each, two, b)
        each = load(x, second + i)
        c, e = fma(each, one, c), fma(each, two, e)
        each = load(x, third + i)
        f, g = fma(each, one, f), fma(each, two, g)
        each = load(x, fourth + i)
        h, o = fma(each, one, h), fma(each, two, o)
    found = ((total(a), total(b)), (total(c), total(e)), (total(f), total(g)), (total(h), total(o)))
    for k in range(4):
        p, q = found[k]
        for i in range(whole, d):
            each_one = get(x, at + k * d + i)
            p, q = p + each_one * get(weight, row + i), q + each_one * get(weight, other + i)
        put(y, place + k * n, p)
        put(y, place + k * n + 1, q)


@inlined
def outputs(x: Any, weight: Any, bias: Any, biased: bool, first: int, last: int, y: Any) -> None:
    """Columns first ≤ i < last of y (rows, n) = x (rows, d) · weight (n, d)ᵀ + bias (n,)."""
    rows, d, n = x.shape[0], x.shape[1], weight.shape[0]
    fours = rows - rows % 4
    for i in range(first, last, 2):
        both = i + 1 < last
        for row in range(0, fours if both else 0, 4):
            eight_dots(x, row * d, weight, i * d, d, y, row * n + i, n)
        for row in range(fours if both else 0, rows):
            y[row, i] = dot(x, row * d, weight, i * d, d)
        for row in range(fours, rows if both else 0):
            y[row, i + 1] = dot(x, row * d, weight, (i + 1) * d, d)
    if biased:
        for row in range(rows):
            for i in range(first, last):
                y[row, i] += bias[i]


def few_rows(struct: Any) -> None:
    """y (rows, n) of x (rows, d), by as many threads as call it: see `few_rows_arguments`."""
    args = carray(struct, 1)[0]
    kind, rows, d, n = args.kind, args.rows, args.d, args.n
    x, y = carray(floats(args.x, kind), (rows, d)), carray(floats(args.y, kind), (rows, n))
    weight, bias = carray(floats(args.weight, kind), (n, d)), carray(floats(args.bias, kind), (n,))
    ticket = carray(integers(args.ticket, kind), (1,))
    while True:
        first = take(ticket) * BLOCK
        if first >= n:
            return
        outputs(x, weight, bias, args.bias != 0, first, min(first + BLOCK, n), y)
