"""1.5-entmax without sorting: Newton's method for the threshold.

With x = (θ − max θ)/2 and u = [x − τ]₊ the weights are u², and τ in [−1, −1/√n] is the root of ‖u‖ − 1,
convex and decreasing in τ. On a given support S = {j : xⱼ > τ} the equation Σ_{j ∈ S} (xⱼ − τ')² = 1 is
quadratic:

    τ' = τ + (Σu² − 1) / (Σu + √D)      with D = (Σu)² − |S| (Σu² − 1)

and if the support stays as it was, this was the last step. Where D < 0 the step is Newton's, which never
passes the root from below:

    τ' = τ + ‖u‖ (‖u‖ − 1) / Σu

A step is one vectorised pass; 2 to 8 are usual. Where few scores are within reach of the maximum, the passes
are over these alone.
"""

from math import sqrt
from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.common.row_loops import BLOCK, ZERO, exactly, inlined
from regard.kernels.row_maps.threshold_rows import map_rows

HALF = np.float32(0.5)
GUESS = -0.68  # of τ, for scores of usual spread


@exactly
def excess(score: Any, top: Any, tau: Any) -> Any:
    """u = [(θ − max)/2 − τ]₊."""
    u = (score - top) * HALF - tau
    return u if u > 0 else ZERO


@inlined
def block_sums(row: Any, top: Any, tau: Any) -> Any:
    """Σ u, Σ u² and the size of the support, in the precision of the row."""
    total = square = size = ZERO
    for j in range(len(row)):
        u = excess(row[j], top, tau)
        total += u
        square += u * u
        size += row.dtype.type(u > 0)
    return total, square, size


@inlined
def sums(row: Any, top: Any, tau: Any) -> Any:
    """Σ u, Σ u² and the size of the support."""
    total = square = size = 0.0
    if len(row) <= BLOCK:
        total, square, size = block_sums(row, top, tau)
    else:
        for start in range(0, len(row), BLOCK):
            s, q, k = block_sums(row[start : start + BLOCK], top, tau)
            total += s
            square += q
            size += k
    return total, square, size


@inlined
def mass(row: Any, top: Any, tau: Any) -> Any:
    """What the weights sum to."""
    _, square, _ = sums(row, top, tau)
    return square


@inlined
def threshold(row: Any, top: Any) -> float:
    """τ, counted from the maximum."""
    tolerance = 0.1 * np.finfo(row.dtype).eps  # of Σ u²: so much may keys that leave the support change it
    tau, support = GUESS, 0.0  # the middle saves a step or two for scores of usual spread
    for step in range(64):
        high = row.dtype.type(min(tau, -1 / sqrt(len(row))))
        total, square, size = sums(row, top, high)
        D = total * total - size * (square - 1)
        if D < 0 or step > 16:  # Newton's steps alone converge for certain
            norm = sqrt(square)
            tau, support = high + norm * (norm - 1) / total, 0.0
            continue
        change = (square - 1) / (total + sqrt(D))
        tau = high + change
        if size == support or size * change * change <= tolerance:
            break
        support = size
    return tau


@exactly
def write(row: Any, top: Any, tau: float, out: Any) -> None:
    """p = u², with τ in twice the digits of the scores, so that many small weights still sum to 1."""
    high = row.dtype.type(tau)
    low = row.dtype.type(tau - high)
    for j in range(len(row)):
        u = ((row[j] - top) * HALF - high) - low
        u = u if u > 0 else ZERO
        out[j] = u * u


@compiled
def forward(start: int, stop: int, scores: Any, weights: Any) -> None:
    """Weights of the rows start … stop."""
    map_rows(start, stop, scores, weights, GUESS, 2.0, mass, threshold, write)


@compiled
def backward(start: int, stop: int, weights: Any, gradient: Any, answer: Any) -> None:
    """s ∘ (g − ⟨s, g⟩/‖s‖₁) with s = √p."""
    for i in range(start, stop):
        p, g, out = weights[i], gradient[i], answer[i]
        total = size = ZERO
        for j in range(len(p)):
            s = np.sqrt(p[j])
            sg = s * g[j]
            total += ZERO if s == 0 else sg
            size += s
            out[j] = s  # a root costs more than to keep it
        mean = ZERO if size == 0 else total / size
        for j in range(len(p)):
            s = out[j]
            difference = s * (g[j] - mean)
            out[j] = ZERO if s == 0 else difference
