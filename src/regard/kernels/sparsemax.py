"""Sparsemax without sorting: Newton's method on the threshold.

f(τ) = Σⱼ [θⱼ − τ]₊ − 1 is convex, decreasing and made of straight pieces, so steps from τ = max θ − 1, where f ≥ 0,
go up, never past the root, and end when the support {θⱼ > τ} does not change any more:

    τ ← τ + f(τ) / |{θⱼ > τ}|

the algorithm of Michelot (1986). Every step is one pass over the row that LLVM vectorises.
"""

from typing import Any

import numpy as np

from regard.kernels.compiled import compiled
from regard.kernels.rows import BLOCK, exactly, fill_without, largest

ZERO = np.float32(0)  # takes the precision of what it meets


@exactly
def excess(score: Any, top: Any, tau: Any) -> Any:
    """[θ − max − τ]₊."""
    u = (score - top) - tau
    return u if u > 0 else ZERO


@compiled
def sums(row: Any, top: Any, tau: Any) -> tuple[float, float]:
    """Σ [θ − max − τ]₊ and the size of the support."""
    total = size = 0.0
    for start in range(0, len(row), BLOCK):
        s = k = ZERO
        for score in row[start : start + BLOCK]:
            u = excess(score, top, tau)
            s += u
            k += np.float32(u > 0)
        total += s
        size += k
    return total, size


@exactly
def write(row: Any, top: Any, tau: float, out: Any) -> None:
    """p = [θ − max − τ]₊, with τ in more digits than the scores have."""
    high = row.dtype.type(tau)
    low = row.dtype.type(tau - high)
    for j in range(len(row)):
        u = ((row[j] - top) - high) - low
        out[j] = u if u > 0 else ZERO


@compiled
def threshold(row: Any, top: Any) -> float:
    """τ − max of a row with a finite maximum."""
    high = row.dtype.type(-1)
    before = 0.0
    while True:
        total, size = sums(row, top, high)
        tau = high + (total - 1) / size
        if size == before or total <= 1:
            return tau
        high = row.dtype.type(tau)
        before = size


@compiled
def forward(start: int, stop: int, scores: Any, weights: Any) -> None:
    """Weights of rows start … stop."""
    for i in range(start, stop):
        row, out = scores[i], weights[i]
        top = largest(row)
        if np.isfinite(top):
            write(row, top, threshold(row, top), out)
        else:
            fill_without(top, out)


@compiled
def backward(start: int, stop: int, weights: Any, gradient: Any, answer: Any) -> None:
    """g minus its mean over the support, on the support."""
    for i in range(start, stop):
        p, g, out = weights[i], gradient[i], answer[i]
        total = size = ZERO
        for j in range(len(p)):
            total += g[j] if p[j] > 0 else ZERO
            size += np.float32(p[j] > 0)
        mean = total / max(size, 1)
        for j in range(len(p)):
            out[j] = g[j] - mean if p[j] > 0 else ZERO
