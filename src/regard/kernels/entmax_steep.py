"""α-entmax for one row and α > 2, in float64 whatever the scores are.

A power 1/β = 1/(α − 1) below 1 is steep at 0, and a threshold in floating point too blunt to say how far above it a
key is. Three facts help. The support shrinks as α grows, so it lies in that of sparsemax. A key k is in it if and only
if the keys above k, were k the last, weigh less than 1: Σⱼ (β(θⱼ − θₖ))^{1/β} < 1. And given the last key k of the support,
weighing π, the others weigh pⱼ = ‖(π, aⱼ)‖_β with aⱼ = (β(θⱼ − θₖ))^{1/β}: their sum is convex in π, and Newton's steps
from above never pass the root.

In the gradient, sⱼ = pⱼ^{2−α} is huge where p is tiny. Measured from the gradient of the last key, g′ = g − gₖ, and with
tⱼ = sⱼ/sₖ ≤ 1,  J g = s∘g′ − t·Σ(s∘g′)/Σt  has no difference of huge numbers left.
"""

import math
from typing import Any

import numpy as np

from regard.kernels.compiled import compiled
from regard.kernels.powers import exp2, log2


@compiled
def _above(u: Any, m: int, pivot: float, beta: float) -> float:
    """Σ (β(uⱼ − pivot))^{1/β} over the keys above a pivot."""
    total = 0.0
    for j in range(m):
        y = beta * (u[j] - pivot)
        safe = y if y > 0 else 1.0
        value = exp2(log2(safe - 1, safe) / beta)
        total += value if y > 0 else 0.0
    return total


@compiled
def _keep(u: Any, where: Any, m: int, bar: float) -> int:
    """Move the keys not below a bar to the front, and return their number."""
    kept = 0
    for j in range(m):
        u[kept], where[kept] = u[j], where[j]
        kept += not (u[j] < bar)
    return kept


@compiled
def _sparsemax(u: Any, m: int) -> float:
    """sparsemax's λ for u, whose maximum is 0: the keys of its support lie above λ − 1."""
    lam = 0.0
    for _ in range(m + 1):
        total = count = 0.0
        for j in range(m):
            y = 1 + u[j] - lam
            total += y if y > 0 else 0.0
            count += 1.0 if y > 0 else 0.0
        step = (total - 1) / count
        if step <= 1e-15:
            break
        lam += step
    return lam


@compiled
def _last(u: Any, m: int, beta: float) -> float:
    """The lowest score in the support, found by trying a key near the mean of those in doubt."""
    inside, outside = 0.0, -np.inf
    while True:
        total = count = 0.0
        for j in range(m):
            doubt = outside < u[j] < inside
            total += u[j] if doubt else 0.0
            count += 1.0 if doubt else 0.0
        if count == 0:
            return inside
        mean, pivot = total / count, -np.inf
        for j in range(m):
            if outside < u[j] < inside and abs(u[j] - mean) < abs(pivot - mean):
                pivot = u[j]
        if _above(u, m, pivot, beta) < 1:
            inside = pivot
        else:
            outside = pivot


@compiled
def _weigh(u: Any, p: Any, m: int, beta: float) -> None:
    """Weights p of a support u whose last key is at 0."""
    pi = 1 / m
    for j in range(m):
        y = beta * u[j]
        safe = y if y > 0 else 1.0
        value = exp2(log2(safe - 1, safe) / beta)
        u[j] = value if y > 0 else 0.0  # a
    for _ in range(100):
        total = slope = 0.0
        for j in range(m):
            high, low = max(pi, u[j]), min(pi, u[j])
            ratio = max(low / high, 1e-300)
            x = exp2(beta * log2(ratio - 1, ratio))
            value = high * exp2(log2(x, 1 + x) / beta)
            p[j] = value
            share = max(pi / value, 1e-300)
            total += value
            slope += exp2((beta - 1) * log2(share - 1, share))
        step = (total - 1) / slope
        if abs(total - 1) < 4e-16 or step <= 1e-16 * pi:
            break
        pi -= step
    for j in range(m):
        p[j] /= total


@compiled
def steep(row: Any, weights: Any, beta: float, u: Any, p: Any, where: Any) -> None:
    """Weights of one row of scores; u and p are float64, as long as the row."""
    best = np.float64(row.max())
    if not -np.inf < best < np.inf:
        weights[:] = 0 if best == -np.inf else np.nan
        return
    weights[:] = 0
    for j in range(row.size):
        u[j], where[j] = np.float64(row[j]) - best, j
    m = _keep(u, where, row.size, -1 / beta)
    for j in range(m):
        if u[j] != u[j]:
            weights[:] = np.nan
            return
    m = _keep(u, where, m, _sparsemax(u, m) - 1 - 1e-9)
    last = _last(u, m, beta)
    m = _keep(u, where, m, last)
    for j in range(m):
        u[j] -= last
    _weigh(u, p, m, beta)
    for j in range(m):
        weights[where[j]] = p[j]


@compiled
def steep_back(weights: Any, gradient: Any, answer: Any, beta: float) -> float:
    """Write the gradient of one row of scores, and return that of α."""
    answer[:] = 0
    last = -1
    for j in range(weights.size):
        if weights[j] != weights[j]:
            answer[:] = np.nan
            return np.nan
        if weights[j] > 0 and (last < 0 or weights[j] < weights[last]):
            last = j
    if last < 0 or beta == np.inf:  # all masked; or a step function
        return 0.0
    most = math.log(np.finfo(weights.dtype).max) / 2
    least, anchor = math.log(weights[last]), np.float64(gradient[last])
    total = total_g = moved = p_g = entropy = entropy_g = 0.0
    for j in range(weights.size):
        if weights[j] > 0:
            p, l, g = np.float64(weights[j]), math.log(weights[j]), gradient[j] - anchor
            t = math.exp((1 - beta) * (l - least))
            s = math.exp(min((1 - beta) * l, most))
            answer[j] = t  # kept for the second pass
            total += t
            total_g += t * g
            moved += s * g
            p_g += p * g
            entropy += p * l
            entropy_g += p * l * g
    for j in range(weights.size):
        if weights[j] > 0:
            s = math.exp(min((1 - beta) * math.log(weights[j]), most))
            answer[j] = s * (gradient[j] - anchor) - answer[j] * moved / total
    mean = total_g / total
    return (p_g - mean) / beta**2 - (entropy_g - mean * entropy) / beta
