"""Rows of maps with a threshold: all of a row at once, or by way of its few highest scores.

Weights are 0 below the threshold τ, which is counted from the maximum in units of `scale` scores. A map is
given by functions: `mass(row, top, tau)`, what weights with that τ sum to, `threshold(row, top)`, the τ where
this is 1, and `write(row, top, tau, out)`, the weights. `guess` is a τ for scores of usual spread.
"""

from typing import Any

import numpy as np

from regard.kernels.common.row_loops import fill_without, inlined, largest
from regard.kernels.row_maps.select_above import SHORT, select_above


@inlined
def _sparse_row(
    scores: Any, i: int, top: Any, out: Any, places: Any, few: Any, guess: float, scale: float,
    mass: Any, threshold: Any, write: Any,
) -> bool:  # fmt: skip
    """Weights of row i by way of the few scores that can have any; False if they are not few."""
    slack = 4 * np.finfo(scores.dtype).eps * (abs(float(top)) + 2)
    tau = guess
    for _ in range(2):
        count = select_above(scores, i, scores.dtype.type(top + scale * tau - slack), places)
        if count < 0:
            return False
        for c in range(count):
            few[c] = scores[i, places[c]]
        total = mass(few[:count], top, scores.dtype.type(tau))
        tau = threshold(few[:count], top)
        if total >= 1:
            break  # the guess was below τ; else the τ of some keys is, since more can only raise it
    write(few[:count], top, tau, few[:count])
    out[:] = 0
    for c in range(count):
        out[places[c]] = few[c]
    return True


@inlined
def map_rows(
    start: int, stop: int, scores: Any, weights: Any, guess: float, scale: float,
    mass: Any, threshold: Any, write: Any,
) -> None:  # fmt: skip
    """Weights of the rows start … stop of scores (rows, n)."""
    places, few = np.empty(scores.shape[1], np.int64), np.empty(scores.shape[1], scores.dtype)
    for i in range(start, stop):
        row, out = scores[i], weights[i]
        top = largest(row)
        if not np.isfinite(top):
            fill_without(top, out)
        elif len(row) < SHORT or not _sparse_row(
            scores, i, top, out, places, few, guess, scale, mass, threshold, write
        ):
            write(row, top, threshold(row, top), out)
