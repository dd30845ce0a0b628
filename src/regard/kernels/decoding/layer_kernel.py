"""A pre-norm Transformer layer for the next position of a few texts, from the cache: one call.

    x = x + W_o Attention(LN(x))        x = x + W₂ f(W₁ LN(x) + b₁) + b₂

Each of five parts is cut into tasks that threads share out; a part begins when all tasks of the one before
are done. Each thread normalises x for itself.
"""

from functools import cache
from typing import Any

import numpy as np
import torch
from numba.np.numpy_support import carray

from regard.kernels.common.native import callback, floats, integers
from regard.kernels.common.powers import exp2
from regard.kernels.common.row_loops import inlined, largest
from regard.kernels.common.simd import arrive, reached
from regard.kernels.decoding.few_rows_kernel import BLOCK, outputs
from regard.kernels.decoding.layer_arguments import INTEGERS, REALS
from regard.kernels.decoding.step_ends import LOG2_E, exponentials
from regard.kernels.decoding.step_loops import add_values, score

PARTS = 5
CUBIC, ROOT = 0.044715, 0.7978845608028654  # √(2/π)


@cache
def compiled_layer(kind: torch.dtype) -> Any:
    """The kernel for numbers of this kind; it is called with the address of `Arguments`."""
    return callback(layer, INTEGERS, REALS, kind)


@inlined
def normalise(x: Any, weight: Any, bias: Any, biased: bool, eps: float, out: Any) -> None:
    """out = (x − mean) / √(variance + ε) · weight + bias, row by row."""
    rows, d = x.shape
    for r in range(rows):
        mean, square = 0.0, 0.0
        for i in range(d):
            mean += np.float64(x[r, i])
        mean /= d
        for i in range(d):
            off = np.float64(x[r, i]) - mean
            square += off * off
        factor = x.dtype.type(1.0 / np.sqrt(square / d + eps))
        middle = x.dtype.type(mean)
        for i in range(d):
            out[r, i] = (x[r, i] - middle) * factor * weight[i]
        if biased:
            for i in range(d):
                out[r, i] += bias[i]


@inlined
def activate(x: Any, which: int) -> None:
    """The activation function in place; GELU by tanh is x σ(2√(2/π)(x + 0.044715 x³))."""
    one, zero = x.dtype.type(1), x.dtype.type(0)
    if which < 2:
        for i in range(len(x)):
            x[i] = max(x[i], zero) if x[i] == x[i] else x[i]
        if which == 1:
            for i in range(len(x)):
                x[i] *= x[i]
        return
    cubic, slope = x.dtype.type(CUBIC), x.dtype.type(-2 * ROOT * LOG2_E)
    for i in range(len(x)):
        z = x[i]
        away = slope * (abs(z) + cubic * abs(z) * z * z)
        e = exp2(away) if away == away else away
        x[i] = z * ((one if z >= zero else e) / (one + e))


@inlined
def rotate(x: Any, cos: Any, sin: Any, interleaved: int) -> None:
    """Rotate pairs of coordinates of x, i and i + half, or 2i and 2i + 1."""
    half = len(cos)
    for i in range(half):
        a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
        u, v = x[a], x[b]
        x[a], x[b] = u * cos[i] - v * sin[i], v * cos[i] + u * sin[i]


@inlined
def wait(counters: Any, part: int, tasks: int) -> None:
    """Until all tasks of a part are done."""
    while reached(counters, PARTS + part) < tasks:
        pass


@inlined
def add_linear(counters: Any, part: int, x: Any, W: Any, b: Any, biased: bool, old: Any, y: Any) -> None:
    """y = old + W x + b, a part whose tasks are blocks of outputs."""
    rows, n = y.shape
    while True:
        first = arrive(counters, part) * BLOCK
        if first >= n:
            break
        last = min(first + BLOCK, n)
        outputs(x, W, b, biased, first, last, y)
        for r in range(rows):
            for i in range(first, last):
                y[r, i] += old[r, i]
        arrive(counters, PARTS + part)


def layer(struct: Any) -> None:
    """y (rows, d) of x (rows, d), by as many threads as call it: see `layer_arguments`."""
    args = carray(struct, 1)[0]
    kind, rows, d, heads, inner = args.kind, args.rows, args.d, args.heads, args.inner
    each, n, capacity = d // heads, args.n, args.capacity
    x, y = carray(floats(args.x, kind), (rows, d)), carray(floats(args.y, kind), (rows, d))
    work = carray(floats(args.work, kind), (rows * (5 * d + inner),))
    projected = work[: 3 * rows * d].reshape(3, rows, d)  # queries, keys, values
    context = work[3 * rows * d : 4 * rows * d].reshape(rows, d)
    middle = work[4 * rows * d : 5 * rows * d].reshape(rows, d)
    hidden = work[5 * rows * d :].reshape(rows, inner)
    keys = carray(floats(args.keys, kind), (rows * heads * capacity * each,))
    values = carray(floats(args.values, kind), (rows * heads * capacity * each,))
    half = args.turned // 2
    cos, sin = carray(floats(args.cos, kind), (half,)), carray(floats(args.sin, kind), (half,))
    counters = carray(integers(args.counters, kind), (2 * PARTS,))
    normed, factor = np.empty((rows, d), x.dtype), x.dtype.type(args.scale)
    blocks, wide = (d + BLOCK - 1) // BLOCK, (inner + BLOCK - 1) // BLOCK

    weight, bias = carray(floats(args.norm, kind), (d,)), carray(floats(args.norm_bias, kind), (d,))
    normalise(x, weight, bias, args.norm_bias != 0, args.eps, normed)
    while True:
        task = arrive(counters, 0)
        if task >= 3 * blocks:
            break
        which, first = task // blocks, task % blocks * BLOCK
        address = args.W_q if which == 0 else args.W_k if which == 1 else args.W_v
        given = args.W_q_bias if which == 0 else args.W_k_bias if which == 1 else args.W_v_bias
        W, b = carray(floats(address, kind), (d, d)), carray(floats(given, kind), (d,))
        outputs(normed, W, b, given != 0, first, min(first + BLOCK, d), projected[which])
        arrive(counters, PARTS)
    wait(counters, 0, 3 * blocks)

    query, theta = np.empty((1, each), x.dtype), np.empty((1, n + 5), x.dtype)
    while True:
        task = arrive(counters, 1)
        if task >= rows * heads:
            break
        r, begin = task // heads, task % heads * each
        at = task * capacity * each
        key, own = projected[1, r, begin : begin + each], at + n * each
        for i in range(each):
            query[0, i] = projected[0, r, begin + i]
        if half:
            rotate(query[0], cos, sin, args.interleaved)
            rotate(key, cos, sin, args.interleaved)
        for i in range(each):
            query[0, i] *= factor
            keys[own + i], values[own + i] = key[i], projected[2, r, begin + i]
        score(query, 0, 1, keys, at, each, n + 1, theta, 0, 0)
        seen, z = theta[0, : n + 1], context[r, begin : begin + each]
        z[:] = 0
        top = largest(seen)
        if abs(top) < np.inf:
            whole = exponentials(seen, top)
            add_values(theta, 0, n + 1, values, at, each, context, r * d + begin, each)
            for i in range(each):
                z[i] /= whole
        else:
            z[:] = np.nan
        arrive(counters, PARTS + 1)
    wait(counters, 1, rows * heads)

    W, b = carray(floats(args.W_o, kind), (d, d)), carray(floats(args.W_o_bias, kind), (d,))
    add_linear(counters, 2, context, W, b, args.W_o_bias != 0, x, middle)
    wait(counters, 2, blocks)

    weight, bias = carray(floats(args.norm_2, kind), (d,)), carray(floats(args.norm_2_bias, kind), (d,))
    normalise(middle, weight, bias, args.norm_2_bias != 0, args.eps_2, normed)
    W, b = carray(floats(args.W_1, kind), (inner, d)), carray(floats(args.W_1_bias, kind), (inner,))
    while True:
        first = arrive(counters, 3) * BLOCK
        if first >= inner:
            break
        last = min(first + BLOCK, inner)
        outputs(normed, W, b, args.W_1_bias != 0, first, last, hidden)
        for r in range(rows):
            activate(hidden[r, first:last], args.activation)
        arrive(counters, PARTS + 3)
    wait(counters, 3, wide)

    W, b = carray(floats(args.W_2, kind), (d, inner)), carray(floats(args.W_2_bias, kind), (d,))
    add_linear(counters, 4, hidden, W, b, args.W_2_bias != 0, middle, y)
