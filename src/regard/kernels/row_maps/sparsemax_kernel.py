"""Sparsemax without sorting: Newton's method for the threshold.

f(τ) = Σⱼ [θⱼ − τ]₊ − 1 is convex, decreasing and made of straight pieces. A step

    τ ← τ + f(τ) / |{j : θⱼ > τ}|

never passes the root from below, and is the last one when the support {j : θⱼ > τ} stays as it was. Seen from
sets instead of τ this is the projection of Michelot (1986). A step is one vectorised pass over the row; 2 to
10 are usual; where few scores are within reach of the maximum, the passes are over these alone. τ is counted
from the maximum, so that it lies in [−1, −1/n].
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.common.row_loops import BLOCK, ZERO, exactly, inlined
from regard.kernels.row_maps.threshold_rows import map_rows

GUESS = -0.6  # of τ, for scores of usual spread


@exactly
def excess(score: Any, top: Any, tau: Any) -> Any:
    """u = [θ − max − τ]₊."""
    u = (score - top) - tau
    return u if u > 0 else ZERO


@inlined
def block_sums(row: Any, top: Any, tau: Any) -> Any:
    """Σ u and the size of the support, in the precision of the row."""
    total = size = ZERO
    for j in range(len(row)):
        u = excess(row[j], top, tau)
        total += u
        size += row.dtype.type(u > 0)
    return total, size


@inlined
def sums(row: Any, top: Any, tau: Any) -> Any:
    """Σ u and the size of the support."""
    total = size = 0.0
    if len(row) <= BLOCK:
        total, size = block_sums(row, top, tau)
    else:
        for start in range(0, len(row), BLOCK):
            s, k = block_sums(row[start : start + BLOCK], top, tau)
            total += s
            size += k
    return total, size


@inlined
def mass(row: Any, top: Any, tau: Any) -> Any:
    """What the weights sum to."""
    total, _ = sums(row, top, tau)
    return total


@exactly
def write(row: Any, top: Any, tau: float, out: Any) -> None:
    """p = u, with τ in twice the digits of the scores, so that many small weights still sum to 1."""
    high = row.dtype.type(tau)
    low = row.dtype.type(tau - high)
    for j in range(len(row)):
        u = ((row[j] - top) - high) - low
        out[j] = u if u > 0 else ZERO


@inlined
def threshold(row: Any, top: Any) -> float:
    """τ, counted from the maximum."""
    tau, support = GUESS, 0.0  # the middle saves a step or two for scores of usual spread
    for _ in range(64):
        high = row.dtype.type(min(tau, -1 / len(row)))
        total, size = sums(row, top, high)
        tau = high + (total - 1) / size
        if size == support or abs(total - 1) <= 4 * np.finfo(row.dtype).eps:
            break
        support = size
    return tau


@compiled
def forward(start: int, stop: int, scores: Any, weights: Any) -> None:
    """Weights of the rows start … stop."""
    map_rows(start, stop, scores, weights, GUESS, 1.0, mass, threshold, write)


@compiled
def backward(start: int, stop: int, weights: Any, gradient: Any, answer: Any) -> None:
    """On the support, g minus its mean there; elsewhere 0."""
    for i in range(start, stop):
        p, g, out = weights[i], gradient[i], answer[i]
        if np.isnan(p[0]):
            out[:] = np.nan
            continue
        total = size = ZERO
        for j in range(len(p)):
            inside, gj = p[j] > 0, g[j]
            total += gj if inside else ZERO
            size += p.dtype.type(inside)
        mean = total / max(size, p.dtype.type(1))
        for j in range(len(p)):
            difference = g[j] - mean
            out[j] = difference if p[j] > 0 else ZERO
