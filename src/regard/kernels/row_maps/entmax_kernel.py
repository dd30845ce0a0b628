"""α-entmax with one α per row: entmax_le2 for α ≤ 2, entmax_gt2 above it."""

import math
from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.row_maps.entmax_gt2 import entmax_gt2, entmax_gt2_backward
from regard.kernels.row_maps.entmax_le2 import PADDING, entmax_le2
from regard.kernels.row_maps.entmax_le2_backward import entmax_le2_backward

LEAST = 1e-20  # of β = α − 1: nearer to 1 all formulas are already those of softmax


@compiled
def forward(start: int, stop: int, scores: Any, alpha: Any, weights: Any) -> None:
    """Weights of the rows start … stop of scores (rows, n), for alpha (rows,); NaN where that is below 1."""
    n, kind = scores.shape[1], scores.dtype
    u, p = np.empty(n + 2 * PADDING, kind), np.empty(n + 2 * PADDING, kind)
    sample = np.empty(PADDING * min(max(n // (8 * PADDING), 2), 16), kind)
    tops, groups = np.empty(n // 4, kind), np.empty(n // 4 + 1, np.int32)
    places = np.empty(n + PADDING, np.int32)
    spaces = u, p, sample, tops, groups, places
    wide_u, wide_p = np.empty(n), np.empty(n)  # touched only if α > 2
    beta = high = window = -1.0
    smallest = math.log(np.finfo(kind).tiny)  # of log p
    for i in range(start, stop):
        if not alpha[i] >= 1:
            weights[i, :] = np.nan
        elif alpha[i] > 2:
            entmax_gt2(scores[i], weights[i], alpha[i] - 1, wide_u, wide_p, spaces)
        else:
            if max(alpha[i] - 1, LEAST) != beta:
                beta = max(alpha[i] - 1, LEAST)
                high = -math.expm1(-beta * math.log(n)) / beta
                window = -math.expm1(beta * smallest) / beta
            entmax_le2(scores[i], weights[i], beta, high, window, spaces)


@compiled
def backward(
    start: int, stop: int, weights: Any, gradient: Any, to_scores: Any, alpha: Any, to_alpha: Any
) -> None:
    """The gradients of scores (rows, n) and alpha (rows,), given that of the weights (rows, n)."""
    n, kind = weights.shape[1], weights.dtype
    p, g, s = np.empty(n + PADDING, kind), np.empty(n + PADDING, kind), np.empty(n + PADDING, kind)
    tops, groups = np.empty(n // 4, kind), np.empty(n // 4 + 1, np.int32)
    spaces = p, g, s, tops, groups, np.empty(n + PADDING, np.int32)
    for i in range(start, stop):
        beta = max(alpha[i] - 1, LEAST)
        if beta > 1:
            to_alpha[i] = entmax_gt2_backward(weights[i], gradient[i], to_scores[i], beta)
        else:
            to_alpha[i] = entmax_le2_backward(weights[i], gradient[i], to_scores[i], beta, spaces)
