"""SparseMAP of a binary chain, row by row: a total variation prox, clipped.

A z ∈ {0, 1}ⁿ is worth Σᵢ θᵢzᵢ + Σᵢ T[zᵢ, zᵢ₊₁]. Neighbours of marginals a and b that are both 1 with chance c
are worth T₀₀ + a(T₁₀ − T₀₀) + b(T₀₁ − T₀₀) + tc on average, t = T₀₀ + T₁₁ − T₀₁ − T₁₀. On a chain each c
can be chosen by itself: the best is min(a, b) if t > 0, max(0, a + b − 1) if t < 0, and

    tc = ½t(a + b) − ½t|a − b|        or, with b′ = 1 − b,        tc = ½t(a + b − 1) − ½|t||a − b′|

What is linear joins the scores: x = θ + left where a key follows + right where one precedes,

    left = ½(T₁₀ + T₁₁ − T₀₀ − T₀₁)        right = ½(T₀₁ + T₁₁ − T₀₀ − T₁₀)

and if t < 0 every second key is flipped, x → 1 − x, μ → 1 − μ. What is left is total variation:

    μ = argmin_{μ ∈ [0, 1]ⁿ} ½‖μ − x‖² + ½|t| Σᵢ |μᵢ₊₁ − μᵢ| = clip(prox(x), 0, 1)

Keys at −inf are not there at all: those on both sides become neighbours.

`trace` holds what the derivatives need, a byte for each key: 0 if hidden, else the sum of

    VISIBLE     always
    FREE        0 < μ < 1
    STARTS      a segment of equal μ, before the flips, begins here
    FLIPPED     μ = 1 − y
    WALL × w    where it starts: w − 2 = sign(t)(walls at its end and at its beginning, −2 … 2), the slope of
                its sum in ½t
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.row_maps.total_variation import bends, heights
from regard.kernels.sparsemap.binary_chain_operator import FLIPPED, FREE, STARTS, VISIBLE, WALL


@compiled
def gather(row: Any, left: float, right: float, half: float, x: Any, place: Any) -> int:
    """The visible keys, shifted and flipped, as x, and where they are; returns how many.

    x is kept where it matters: y is within 2λ of it, so that lower ones are at 0 and higher ones at 1.
    """
    count = 0
    for j in range(len(row)):
        place[count] = j
        count += row[j] > -np.inf
    room = 2 * abs(half) + 1
    for k in range(count):
        value = float(row[place[k]])
        value += (left if k < count - 1 else 0.0) + (right if k > 0 else 0.0)
        value = 1 - value if (half < 0) & (k & 1) else value
        x[k] = min(max(value, -room), 1 + room)
    return count


@compiled
def forward(start: int, stop: int, scores: Any, couplings: Any, weights: Any, trace: Any) -> None:
    """Weights and trace of rows start … stop, for couplings (rows, 3): left, right, ½t."""
    n = scores.shape[1]
    x, height = np.empty((2, n + 1))
    corners = np.empty((4, n + 1))
    place, ends, side = np.empty((3, n + 1), np.int64)
    for r in range(start, stop):
        left, right, half = couplings[r]
        top = scores[r].max()
        weights[r] = 0
        trace[r] = 0
        if not (top < np.inf and np.isfinite(left + right + half)):
            weights[r] = np.nan
            continue
        if top == -np.inf:
            continue
        size = gather(scores[r], left, right, half, x, place)
        count = bends(x, size, abs(half), ends, side, corners)
        heights(x, abs(half), count, ends, side, height)
        begin = before = 0
        for s in range(count):
            y = min(max(height[s], 0.0), 1.0)
            free = FREE if 0 < y < 1 else 0
            wall = (side[s] - before) * (-1 if half < 0 else 1)
            for k in range(begin, ends[s]):
                flipped = half < 0 and k & 1
                weights[r, place[k]] = 1 - y if flipped else y
                trace[r, place[k]] = VISIBLE + free + (FLIPPED if flipped else 0)
            trace[r, place[begin]] += STARTS + WALL * (wall + 2)
            begin, before = ends[s], side[s]


@compiled
def backward(
    start: int, stop: int, weights: Any, trace: Any, gradient: Any, answer: Any, slopes: Any
) -> None:
    """Gradients of scores into answer, and of couplings into slopes (rows, 3), for that of the weights."""
    n = weights.shape[1]
    place = np.empty(n, np.int64)
    for r in range(start, stop):
        answer[r] = 0
        slopes[r] = 0
        if np.isnan(weights[r, 0]):
            answer[r] = np.nan
            slopes[r] = np.nan
            continue
        size = 0
        for j in range(n):
            place[size] = j
            size += trace[r, j] != 0
        begin = 0
        total = 0.0
        while begin < size:
            code = trace[r, place[begin]]
            end, mean = begin, 0.0
            while end < size and (end == begin or not trace[r, place[end]] & STARTS):
                mean += (
                    -gradient[r, place[end]] if trace[r, place[end]] & FLIPPED else gradient[r, place[end]]
                )
                end += 1
            if code & FREE:
                mean /= end - begin
                slopes[r, 2] += (code // WALL - 2) * mean
                for k in range(begin, end):
                    slope = -mean if trace[r, place[k]] & FLIPPED else mean
                    answer[r, place[k]] = slope
                    total += slope
            begin = end
        if size:
            slopes[r, 0] = total - answer[r, place[size - 1]]
            slopes[r, 1] = total - answer[r, place[0]]
