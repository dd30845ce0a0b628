"""α-entmax with one α per row: entmax_gentle for α ≤ 2, entmax_steep above it."""

import math
from typing import Any

import numpy as np

from regard.kernels.compiled import compiled
from regard.kernels.entmax_gentle import LANES, gentle
from regard.kernels.entmax_gentle_back import gentle_back
from regard.kernels.entmax_steep import steep, steep_back

LEAST = 1e-20  # of β = α − 1: nearer to 1 all formulas are already those of softmax


@compiled
def forward(start: int, stop: int, scores: Any, alpha: Any, weights: Any) -> None:
    """Weights of the rows start … stop of scores (rows, n), for alpha (rows,); NaN where that is below 1."""
    n, kind = scores.shape[1], scores.dtype
    u, p = np.empty(n + 2 * LANES, kind), np.empty(n + 2 * LANES, kind)
    sample = np.empty(LANES * min(max(n // (8 * LANES), 2), 16), kind)
    tops, groups = np.empty(n // 4, kind), np.empty(n // 4 + 1, np.int32)
    places = np.empty(n + LANES, np.int32)
    spaces = u, p, sample, tops, groups, places
    wide_u, wide_p = np.empty(n), np.empty(n)  # touched only if α > 2
    beta = high = window = -1.0
    smallest = math.log(np.finfo(kind).tiny)  # of log p
    for i in range(start, stop):
        if not alpha[i] >= 1:
            weights[i, :] = np.nan
        elif alpha[i] > 2:
            steep(scores[i], weights[i], alpha[i] - 1, wide_u, wide_p, spaces)
        else:
            if max(alpha[i] - 1, LEAST) != beta:
                beta = max(alpha[i] - 1, LEAST)
                high = -math.expm1(-beta * math.log(n)) / beta
                window = -math.expm1(beta * smallest) / beta
            gentle(scores[i], weights[i], beta, high, window, spaces)


@compiled
def backward(
    start: int, stop: int, weights: Any, gradient: Any, to_scores: Any, alpha: Any, to_alpha: Any
) -> None:
    """The gradients of scores (rows, n) and alpha (rows,), given that of the weights (rows, n)."""
    n, kind = weights.shape[1], weights.dtype
    p, g, s = np.empty(n + LANES, kind), np.empty(n + LANES, kind), np.empty(n + LANES, kind)
    tops, groups = np.empty(n // 4, kind), np.empty(n // 4 + 1, np.int32)
    spaces = p, g, s, tops, groups, np.empty(n + LANES, np.int32)
    for i in range(start, stop):
        beta = max(alpha[i] - 1, LEAST)
        if beta > 1:
            to_alpha[i] = steep_back(weights[i], gradient[i], to_scores[i], beta)
        else:
            to_alpha[i] = gentle_back(weights[i], gradient[i], to_scores[i], beta, spaces)
