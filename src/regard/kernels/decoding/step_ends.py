"""How the context of a decoding step comes of its scores: 1.5-entmax and sparsemax, softmax by chunks."""

from typing import Any

import numpy as np

from regard.kernels.attention.sparse_threshold import finish
from regard.kernels.common.powers import exp2
from regard.kernels.common.row_loops import exactly, inlined, largest, maximum
from regard.kernels.common.simd import above, first_bit, load, prefetch, splat, width
from regard.kernels.decoding.step_loops import add_value

CHUNK = 1024  # keys
LOG2_E = 1.4426950408889634
LINE = 16  # numbers that memory brings at once, about


@exactly
def below(x: Any, top: Any) -> Any:
    """x − top, in this order."""
    return x - top


@inlined
def exponentials(theta: Any, top: Any) -> Any:
    """Turn the scores of a chunk into e^(θ − top); their sum."""
    scale, whole = theta.dtype.type(LOG2_E), theta.dtype.type(0)
    for j in range(len(theta)):
        theta[j] = exp2(below(theta[j], top) * scale)
        whole += theta[j]
    return whole


@inlined
def candidates(theta: Any, first: int, floor: Any, some: Any, places: Any, count: int) -> int:
    """Append the scores of a chunk above a floor, and their places from `first` on; how many there are."""
    n, w = len(theta), width(theta)
    floors = splat(theta, floor)
    for j in range(0, n - n % w, w):
        bits = above(load(theta, j), floors)
        while bits != 0:
            place = j + first_bit(bits)
            bits &= bits - 1
            some[count], places[count] = theta[place], first + place
            count += 1
    for j in range(n - n % w, n):
        if theta[j] > floor:
            some[count], places[count] = theta[j], first + j
            count += 1
    return count


@inlined
def end_sparse(
    theta: Any, tops: Any, sink: Any, chunks: int, low: int, high: int, half: float, values: Any, at: int,
    step: int, some: Any, places: Any, z: Any,
) -> None:  # fmt: skip
    """Context of the scores theta[low : high], h = ½ or 1, whose values begin at `at`.

    p = [h(θ − max) − τ]₊^(1/h): no key below max − 1/h has weight.
    """
    top = maximum(largest(tops[:chunks]), sink)
    z[:] = 0
    if not abs(top) < np.inf:
        z[:] = 0.0 if top == -np.inf else np.nan
        return
    floor = theta.dtype.type(below(top, 1.0 / half) - 4 * np.finfo(theta.dtype).eps * abs(top))
    some[0], places[0] = sink, -1  # which has no value
    count = 1 if sink > floor else 0
    for c in range(chunks):
        first, last = max(low, c * CHUNK), min(high, (c + 1) * CHUNK)
        if first < last and tops[c] > floor:
            count = candidates(theta[first:last], first, floor, some, places, count)
    support = finish(some, places, 0, count, half, floor)
    for e in range(support):
        for i in range(0, len(z), LINE):
            prefetch(values, at + max(places[e], 0) * step + i)
    for e in range(support):
        if places[e] >= 0:
            p = some[e] if half == 1.0 else some[e] * some[e]
            add_value(p, values, at + places[e] * step, z, 0, len(z))


@inlined
def end_softmax(tops: Any, sums: Any, parts: Any, sink: Any, chunks: int, z: Any) -> None:
    """Context of chunks, each with its maximum, its sum of exponentials and its sum of values."""
    scale = tops.dtype.type(LOG2_E)
    top, whole = maximum(largest(tops[:chunks]), sink), 0.0
    z[:] = 0
    if not abs(top) < np.inf:
        z[:] = 0.0 if top == -np.inf else np.nan
        return
    if sink > -np.inf:
        whole += exp2(below(sink, top) * scale)
    for c in range(chunks):
        if sums[c] > 0.0:
            factor = exp2(below(tops[c], top) * scale)
            whole += factor * sums[c]
            for i in range(len(z)):
                z[i] += factor * parts[c, i]
    for i in range(len(z)):
        z[i] /= tops.dtype.type(whole)
