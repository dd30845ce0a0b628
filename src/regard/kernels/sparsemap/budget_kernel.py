"""The budget polytope without sorting: fix keys at 0 or 1 until those that are left share the rest.

f(τ) = Σⱼ clip(θⱼ − τ, 0, 1) falls as τ rises. If f(0) ≤ k, τ is 0; else f(τ) = k. Were all keys in play free,
τ would be mean(θ) − r/size, with r what the keys fixed at 1 leave of k. Where f is too large there, the true
τ lies above, so keys at 0 stay at 0; where it is too small, keys at 1 stay at 1. They leave the game, and
when none does, τ is exact. Each pass is over what is left of the row.

τ is counted from one of the keys in play, whose scores are within 1 of it in the end: it does not drown in a
score of 1e30.

Kiwiel (2008), "Variable Fixing Algorithms for the Continuous Quadratic Knapsack Problem", Journal of
Optimization Theory and Applications 136.
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.common.row_loops import exactly, fill_without, inlined, largest

EPS = np.finfo(np.float64).eps


@exactly
def clipped(score: float, origin: float, tau: float) -> float:
    """clip(θ − origin − τ, 0, 1)."""
    return min(max((score - origin) - tau, 0.0), 1.0)


@inlined
def spent(row: Any, origin: float, tau: float) -> float:
    """Σ clip(θ − origin − τ, 0, 1)."""
    total = 0.0
    for j in range(len(row)):
        total += clipped(row[j], origin, tau)
    return total


@inlined
def threshold(x: Any, size: int, r: float) -> Any:
    """(origin, τ) where x[:size], which it overwrites, spend r: τ is counted from the origin."""
    while True:
        if r == 0:
            return largest(x[:size]), 0.0
        if r == size:
            return -largest(-x[:size]), -1.0
        origin, share, tau = x[0], 1 / size, -r / size
        for j in range(size):
            tau += (x[j] - origin) * share  # each by itself: 1e308 + 1e308 would be infinite
        total, count = 0.0, 0
        for j in range(size):
            total += clipped(x[j], origin, tau)
        if abs(total - r) <= 2 * EPS * size:
            return origin, tau
        if total > r:
            for j in range(size):
                x[count] = x[j]
                count += (x[j] - origin) - tau > 0
        else:
            for j in range(size):
                x[count] = x[j]
                count += (x[j] - origin) - tau < 1
            r -= size - count
        if count == size:
            return origin, tau
        size = count


@compiled
def forward(start: int, stop: int, scores: Any, weights: Any, k: int) -> None:
    """Weights of the rows start … stop."""
    x = np.empty(scores.shape[1])
    for i in range(start, stop):
        row, out = scores[i], weights[i]
        top = largest(row)
        if not np.isfinite(top):
            fill_without(top, out)
            continue
        origin = tau = 0.0
        if spent(row, 0.0, 0.0) > k:
            size = 0
            for j in range(len(row)):
                x[size] = row[j]
                size += row[j] > 0
            origin, tau = threshold(x, size, float(k))
        for j in range(len(row)):
            out[j] = clipped(row[j], origin, tau)


@compiled
def backward(start: int, stop: int, weights: Any, gradient: Any, answer: Any, k: int) -> None:
    """Where 0 < μ < 1 the gradient, minus its mean there if the budget is spent; elsewhere 0."""
    slack = 4 * (np.finfo(weights.dtype).eps * k + EPS * weights.shape[1])
    for i in range(start, stop):
        mu, g, out = weights[i], gradient[i], answer[i]
        if np.isnan(mu[0]):
            out[:] = np.nan
            continue
        whole = total = size = 0.0
        for j in range(len(mu)):
            free = (mu[j] > 0) & (mu[j] < 1)
            whole += mu[j]
            total += g[j] if free else 0.0
            size += free
        mean = total / max(size, 1.0) if whole >= k - slack else 0.0
        for j in range(len(mu)):
            out[j] = g[j] - mean if (mu[j] > 0) & (mu[j] < 1) else 0.0
