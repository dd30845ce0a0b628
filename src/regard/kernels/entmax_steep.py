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
from regard.kernels.gather import fold, gather
from regard.kernels.powers import exp2, log2
from regard.kernels.rows import fill_without, largest

PARTS = 64


@compiled
def above(u: Any, pivot: float, beta: float) -> float:
    """Σ (β(uⱼ − pivot))^{1/β} over the keys above a pivot."""
    total = 0.0
    for x in u:
        y = beta * (x - pivot)
        safe = y if y > 0 else 1.0
        value = exp2(log2(safe - 1, safe) / beta)
        total += value if y > 0 else 0.0
    return total


@compiled
def keep(u: Any, places: Any, bar: float) -> Any:
    """Move the keys not below a bar to the front, and return the part that has them."""
    kept = 0
    for j in range(u.size):
        x = u[j]
        u[kept], places[kept] = x, places[j]
        kept += x >= bar
    return u[:kept]


@compiled
def sparsemax(u: Any) -> float:
    """sparsemax's λ for u, whose maximum is 0: the keys of its support lie above λ − 1."""
    lam = 0.0
    for _ in range(u.size):
        total = count = 0.0
        for x in u:
            y = 1 + x - lam
            total += y if y > 0 else 0.0
            count += 1.0 if y > 0 else 0.0
        step = (total - 1) / count
        if step <= 1e-15:
            break
        lam += step
    return lam


@compiled
def last_of(u: Any, beta: float) -> float:
    """The lowest score in the support, found by trying a key near the mean of those in doubt."""
    inside, outside = 0.0, -np.inf
    while True:
        total = count = 0.0
        for x in u:
            doubt = outside < x < inside
            total += x if doubt else 0.0
            count += 1.0 if doubt else 0.0
        if count == 0:
            return inside
        mean, pivot = total / count, -np.inf
        for x in u:
            if outside < x < inside and abs(x - mean) < abs(pivot - mean):
                pivot = x
        if above(u, pivot, beta) < 1:
            inside = pivot
        else:
            outside = pivot


@compiled
def weigh(u: Any, p: Any, beta: float) -> None:
    """Write weights p of a support u whose last key is at 0."""
    pi, total = 1 / u.size, 1.0
    for j in range(u.size):
        y = beta * u[j]
        safe = y if y > 0 else 1.0
        value = exp2(log2(safe - 1, safe) / beta)
        u[j] = value if y > 0 else 0.0  # a
    for _ in range(100):
        total = slope = 0.0
        for j in range(u.size):
            high, low = max(pi, u[j]), min(pi, u[j])
            ratio = max(low / high, 1e-300)
            x = exp2(beta * log2(ratio - 1, ratio))
            value = high * exp2(log2(x, 1 + x) / beta)
            p[j] = value
            share = max(pi / value, 1e-300)
            total += value
            slope += exp2((beta - 1) * log2(share - 1, share))
        step = (total - 1) / slope
        if step <= 4e-16 * pi:
            break
        pi -= step
    for j in range(u.size):
        p[j] /= total


@compiled
def steep(row: Any, weights: Any, beta: float, u: Any, p: Any, spaces: Any) -> None:
    """Weights of one row of scores; u and p are float64, as long as the row."""
    T = row.dtype.type
    values, other, _, tops, groups, places = spaces
    parts, bar, m = row, -1 / beta, row.size
    if m > PARTS:
        parts = tops = fold(row, tops)
        while parts.size > PARTS:
            parts, other = fold(parts, other), values
    best = largest(parts)
    if not -np.inf < best < np.inf:
        fill_without(best, weights)
        return
    top = np.float64(best)
    if m > PARTS:
        for k in range(parts.size):
            u[k] = parts[k] - top
        bar = max(bar, sparsemax(u[: parts.size]) - 1)
        slack = 16 * np.finfo(row.dtype).eps * (1 + abs(bar))
        m = gather(row, tops, best, T(bar - slack), groups, values, places)
    else:
        for j in range(m):
            places[j] = j
    for k in range(m):
        u[k] = row[places[k]] - top
    u = keep(u[:m], places, bar)
    u = keep(u, places, sparsemax(u) - 1 - 1e-9)
    last = last_of(u, beta)
    u = keep(u, places, last)
    for k in range(u.size):
        u[k] -= last
    weigh(u, p, beta)
    weights[:] = 0
    for k in range(u.size):
        weights[places[k]] = p[k]


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
