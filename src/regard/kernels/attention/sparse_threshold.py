"""From the scores of a row's candidates to its support: the threshold τ of sparsemax and 1.5-entmax.

sⱼ = [h(θⱼ − max θ) − τ]₊        pⱼ = sⱼ^(1/h), Σⱼ pⱼ = 1        h = 1 for sparsemax, ½ for 1.5-entmax
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.common.simd import (
    above,
    add,
    count_bits,
    fma,
    get,
    larger,
    largest,
    load,
    put,
    splat,
    store,
    total,
    width,
    zeros,
)

MOST = 64  # steps for a threshold; 3 to 8 are usual


@compiled
def solve(theta: Any, at: int, count: int, half: float, low: float, steps: int) -> Any:
    """(max, τ) of theta[at : at + count], τ in units of h(θ − max). A floor below that τ is where to start.

    f(τ) = Σ [u − τ]₊^(1/h) − 1 is convex and falls. A step solves f = 0 on the keys above the last τ, until
    none enters or leaves. For h = ½ it may pass the root, and the next one then comes back from above. After
    so many steps those of Newton take over, which never pass it; after 0 there is one, and τ is a lower bound
    alone. Writes one vector beyond the end.
    """
    w = width(theta)
    zero, halves = zeros(theta), splat(theta, half)
    store(theta, at + count, splat(theta, -np.inf))
    tops = load(theta, at)
    for e in range(at + w, at + count, w):
        tops = larger(tops, load(theta, e))
    top = largest(tops)
    down = splat(theta, -top)
    tau = max(-1.0, (low - top) * half)
    last, turn = -1, 0
    while True:
        k, sum1, sum2, minus = 0, 0.0, 0.0, splat(theta, -tau)
        for begin in range(at, at + count, 4096):  # sums of so many in their precision, those in float64
            s1 = s2 = zero
            for e in range(begin, min(begin + 4096, at + count), w):
                u = fma(halves, add(load(theta, e), down), minus)
                k += count_bits(above(u, zero))
                u = larger(u, zero)
                s1 = add(s1, u)
                s2 = fma(u, u, s2)
            sum1 += total(s1)
            sum2 += total(s2)
        newton = turn > steps
        if half == 1.0:
            tau += (sum1 - 1.0) / k
        else:
            root = sum1 * sum1 - k * (sum2 - 1.0)
            newton |= root < 0.0
            tau += (sum2 - 1.0) / (sum1 + (sum1 if newton else np.sqrt(root)))
        if k == last or (newton and steps == 0):
            return top, tau
        last, turn = -1 if newton and turn < MOST else k, turn + 1  # Newton's step is not the last


@compiled
def tighten(theta: Any, places: Any, at: int, count: int, half: float, low: float) -> Any:
    """Raise a row's floor to about the τ of its candidates and drop those below: (how many stay, floor)."""
    top, tau = solve(theta, at, count, half, low, 0)
    slack = 16 * np.finfo(theta.dtype).eps * (abs(top) + 2.0)  # so that rounding drops no key
    floor = theta.dtype.type(top + tau / half - slack)
    kept = at
    for e in range(at, at + count):
        x, j = get(theta, e), get(places, e)
        put(theta, kept, x)
        put(places, kept, j)
        kept += x > floor
    return kept - at, floor


@compiled
def finish(theta: Any, places: Any, at: int, count: int, half: float, low: float) -> int:
    """Solve a row: its candidates become its support, theta becomes s. Returns the size of the support."""
    if count <= 0:
        return count
    top, tau = solve(theta, at, count, half, low, 16)
    w = width(theta)
    high = theta.dtype.type(tau)  # τ in twice the digits, so that many small weights still sum to 1
    down, minus, rest = splat(theta, -top), splat(theta, -high), splat(theta, high - tau)
    halves = splat(theta, half)
    for e in range(at, at + count, w):
        store(theta, e, add(fma(halves, add(load(theta, e), down), minus), rest))
    kept = at
    for e in range(at, at + count):
        x, j = get(theta, e), get(places, e)
        put(theta, kept, x)
        put(places, kept, j)
        kept += x > 0
    return kept - at
