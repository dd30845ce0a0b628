"""α-entmax for one row and α > 2, in float64 whatever the scores are.

With β = α − 1, a power 1/β below 1 is steep at 0, and a threshold in floating point too blunt to say how far
above it a key is. Three facts help:

- the support shrinks as α grows, so it lies in that of sparsemax;
- a key k is in it if and only if the keys above, were k the last one, weigh less than 1: Σⱼ aⱼ < 1 with
  aⱼ = [β(θⱼ − θₖ)]₊^{1/β};
- if k is the last key and weighs π, the others weigh pⱼ = ‖(π, aⱼ)‖_β: their sum is convex in π, and Newton's
  steps from above never pass the root.

In the gradient, sⱼ = pⱼ^{2−α} is huge where p is tiny. Measured from the last key, g′ = g − gₖ, and with
tⱼ = sⱼ/sₖ ≤ 1,  (∂p/∂θ) g = s∘g′ − t·Σ(s∘g′)/Σt  takes no huge number from another.
"""

import math
from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.common.powers import exp2, log2
from regard.kernels.common.row_loops import fill_without, largest
from regard.kernels.row_maps.gather import PARTS, fold, fold_more, gather


@compiled
def root(y: float, beta: float) -> Any:
    """[y]₊^{1/β}."""
    safe = y if y > 0 else 1.0
    return exp2(log2(safe - 1, safe) / beta) if y > 0 else 0.0


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
    """sparsemax's λ for scores u with maximum 0: the keys of its support lie above λ − 1."""
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
def last_of(u: Any, beta: float) -> Any:
    """The lowest score in the support, found by trying the key nearest to the mean of those in doubt."""
    inside, outside = 0.0, -np.inf
    while True:
        total = count = above = 0.0
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
        for x in u:
            above += root(beta * (x - pivot), beta)
        if above < 1:
            inside = pivot
        else:
            outside = pivot


@compiled
def weigh(u: Any, p: Any, beta: float) -> None:
    """Write weights p of a support u whose last key is at 0."""
    pi, total = 1 / u.size, 1.0
    for j in range(u.size):
        u[j] = root(beta * u[j], beta)  # a
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
def entmax_gt2(row: Any, weights: Any, beta: float, u: Any, p: Any, spaces: Any) -> None:
    """Weights of one row of scores; u and p are float64, as long as the row."""
    values, other, _, tops, groups, places = spaces
    m = row.size
    tops = fold(row, tops) if m > PARTS else row
    best = largest(tops)
    if not -np.inf < best < np.inf:
        fill_without(best, weights)
        return
    beta = min(beta, 1e300)  # which is already as good as infinity
    bar, top = -1 / beta, np.float64(best)
    if m > PARTS:
        parts = fold_more(tops, other, values)
        for k in range(parts.size):
            u[k] = parts[k] - top
        bar = max(bar, sparsemax(u[: parts.size]) - 1)
        slack = 16 * np.finfo(row.dtype).eps * (1 + abs(bar))
        m = gather(row, tops, best, row.dtype.type(bar - slack), groups, values, places)
    else:
        for j in range(m):
            places[j] = j
    for k in range(m):
        u[k] = row[places[k]] - top
    u = keep(u[:m], places, bar - 1e-9)
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
def entmax_gt2_backward(weights: Any, gradient: Any, answer: Any, beta: float) -> float:
    """Write the gradient of one row of scores, and return that of α."""
    answer[:] = 0
    last = -1
    for j in range(weights.size):
        if weights[j] != weights[j]:
            answer[:] = np.nan
            return np.nan
        if weights[j] > 0 and (last < 0 or weights[j] < weights[last]):
            last = j
    if last < 0 or beta == np.inf:  # everything is masked; or the map is a step function
        return 0.0
    most = math.log(np.finfo(weights.dtype).max) / 2  # of log s: its products stay finite
    least, anchor = math.log(weights[last]), np.float64(gradient[last])
    total = total_g = moved = p_g = p_log = p_log_g = 0.0
    for j in range(weights.size):
        if weights[j] > 0:
            p, log_p, g = np.float64(weights[j]), math.log(weights[j]), gradient[j] - anchor
            t, s = math.exp((1 - beta) * (log_p - least)), math.exp(min((1 - beta) * log_p, most))
            total += t
            total_g += t * g
            moved += s * g
            p_g += p * g
            p_log += p * log_p
            p_log_g += p * log_p * g
    for j in range(weights.size):
        if weights[j] > 0:
            log_p = math.log(weights[j])
            t, s = math.exp((1 - beta) * (log_p - least)), math.exp(min((1 - beta) * log_p, most))
            answer[j] = s * (gradient[j] - anchor) - t * moved / total
    mean = total_g / total
    return (p_g - mean) / beta**2 - (p_log_g - mean * p_log) / beta
