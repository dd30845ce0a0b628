"""Fusedmax row by row: find the support first, then the total variation prox on it alone.

Let y be the prox of the scores x, λ the strength. Of all sets S the level set {y > t} makes Σ_{j∈S} (t −
xⱼ) + λ|∂S| least, with |∂S| the number of its edges to other keys, and Σ_{j∈S} yⱼ = Σ_{j∈S} xⱼ − λ|∂S|. So
the τ of sparsemax, where Σ [yⱼ − τ]₊ = 1, can be had without y: from any t ≤ τ, Newton's step (Σ_{j∈S} xⱼ −
λ|∂S| − 1)/|S| is again at most τ, and no key outside S has weight. Those only keep their neighbours apart,
and one of each stretch does that.

Keys at −inf are not there at all: those on both sides become neighbours.
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.row_maps.total_variation import bends, heights

FEW = 24  # elements that are not worth another look for the support


@compiled
def floor(row: Any, top: float, strength: float) -> float:
    """A number that is at most τ, relative to the top."""
    total, number = 0.0, 0
    for j in range(len(row)):
        visible = row[j] > -np.inf
        total += float(row[j]) - top if visible else 0.0
        number += visible
    whole = (total - 1) / number * (1 + 1e-9)  # Newton's step from S = all keys, and room for rounding
    return max(whole, -1 - 2 * strength)  # some y is at least −2λ: the highest key alone costs two edges


@compiled
def enough(row: Any, top: float, strength: float) -> float:
    """The strength, or less if that fuses all keys too: scores would be lost in the rounding of more."""
    lowest, number = top, 0
    for j in range(len(row)):
        if row[j] > -np.inf:
            lowest = min(lowest, float(row[j]))
            number += 1
    return min(strength, max(1.0, number * (top - lowest)))


@compiled
def gather(row: Any, top: float, cut: float, x: Any, place: Any) -> int:
    """Keep the visible keys down to top + cut and one of each stretch of lower ones; returns how many."""
    count = 0
    least = row.dtype.type(top + cut)
    apart = False  # whether the last visible key was a low one
    for j in range(len(row)):
        visible = row[j] > -np.inf
        low = visible & (row[j] < least)
        x[count] = max(float(row[j]) - top, cut - 1)
        place[count] = j
        count += visible & ~(low & apart)
        apart = low | (apart & ~visible)
    return count


@compiled
def shrink(
    x: Any, place: Any, n: int, strength: float, t: float, cost: Any, inside: Any
) -> tuple[int, float]:
    """Keep {y > t} of x[:n] and one of each stretch outside; returns how many, and Newton's step."""
    c = 0.0  # what it costs more to have k in S than not, given the best choice of those before
    for k in range(n):
        c = min(max(c, -strength), strength) + (t - x[k])
        cost[k] = c
    within = np.int64(c < 0)  # 0 and 1, since branches would be guessed wrong
    inside[n - 1] = within
    for k in range(n - 2, -1, -1):
        within = np.int64(cost[k] < -strength) | (within & np.int64(cost[k] <= strength))
        inside[k] = within
    total, size, edges, count, before = 0.0, 0, inside[0] - 1, 0, 1
    outside = t - 2 * strength - 1  # low enough to stay there
    for k in range(n):
        within = inside[k]
        total += x[k] * within
        size += within
        edges += within ^ before
        x[count], place[count] = x[k] * within + outside * (1 - within), place[k]
        count += within | before
        before = within
    return count, (total - strength * edges - 1) / max(size, 1)


@compiled
def forward(start: int, stop: int, scores: Any, weights: Any, starts: Any, strength: float) -> None:
    """Weights of rows start … stop, and True in starts where a segment of the support begins."""
    n = scores.shape[1]
    x, height = np.empty((2, n + 1))
    corners = np.empty((4, n + 1))
    place, ends, side, inside = np.empty((4, n + 1), np.int64)
    for r in range(start, stop):
        top = float(scores[r].max())
        weights[r] = 0
        starts[r] = False
        if not top < np.inf:
            weights[r] = np.nan
        if not -np.inf < top < np.inf:
            continue
        lam = strength if strength <= 1 else enough(scores[r], top, strength)
        tau = floor(scores[r], top, lam)
        size = gather(scores[r], top, tau - 2 * lam, x, place)
        before = 2 * size
        while size > FEW and 4 * size < 3 * before:
            before = size
            size, step = shrink(x, place, size, lam, tau, height, inside)
            tau = max(tau, step)
        count = bends(x, size, lam, ends, side, corners)
        heights(x, lam, count, ends, side, height)
        more = True
        while more:  # Newton's steps again, now with y
            total, number, begin = -1.0, 0, 0
            for s in range(count):
                if height[s] > tau:
                    total += height[s] * (ends[s] - begin)
                    number += ends[s] - begin
                begin = ends[s]
            step = total / max(number, 1)
            more = step > tau
            tau = max(tau, step)
        begin = 0
        for s in range(count):
            if height[s] > tau:
                starts[r, place[begin]] = True
                for j in range(begin, ends[s]):
                    weights[r, place[j]] = height[s] - tau
            begin = ends[s]


@compiled
def backward(start: int, stop: int, weights: Any, starts: Any, gradient: Any, answer: Any) -> None:
    """The gradient averaged within each segment of the support, minus its mean over the support."""
    n = weights.shape[1]
    place = np.empty(n, np.int64)
    for r in range(start, stop):
        size, total = 0, 0.0
        answer[r] = 0
        for j in range(n):
            if weights[r, j] > 0:
                place[size] = j
                size += 1
                total += gradient[r, j]
        begin = 0
        while begin < size:
            end, mean = begin, 0.0
            while end < size and (end == begin or not starts[r, place[end]]):
                mean += gradient[r, place[end]]
                end += 1
            for j in range(begin, end):
                answer[r, place[j]] = mean / (end - begin) - total / size
            begin = end
        if n and weights[r, 0] != weights[r, 0]:
            answer[r] = np.nan
