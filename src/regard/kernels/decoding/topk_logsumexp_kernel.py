"""The k largest of a row and the logarithm of its sum of exponentials, in two passes over it.

    whole = log Σⱼ exp zⱼ

The first pass finds the maximum of every block; only blocks whose maximum can be among the k are looked into.
Of equal logits the first counts as larger.
"""

import math
from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.common.powers import exp2
from regard.kernels.common.row_loops import inlined, largest

BLOCK = 64


@inlined
def _insert(z: Any, j: int, k: int, count: int, values: Any, places: Any) -> int:
    """Put a logit where it belongs among those found so far; how many these are then."""
    at = min(count, k - 1)
    while at > 0 and values[at - 1] < z:
        values[at], places[at] = values[at - 1], places[at - 1]
        at -= 1
    values[at], places[at] = z, j
    return min(count + 1, k)


@compiled
def forward(start: int, stop: int, logits: Any, first: int, values: Any, places: Any, whole: Any) -> None:
    """The rows start … stop of logits (rows, v), from `first` on: values, places (rows, k), whole (rows,)."""
    T = logits.dtype.type
    k, blocks = values.shape[1], -(-(logits.shape[1] - first) // BLOCK)
    tops = np.empty(blocks, logits.dtype)
    to_2 = T(1 / math.log(2))
    for i in range(start, stop):
        row = logits[i, first:]
        for b in range(blocks):
            tops[b] = largest(row[b * BLOCK : (b + 1) * BLOCK])
        best = largest(tops)
        total, count = 0.0, 0
        for b in range(blocks):
            part = row[b * BLOCK : (b + 1) * BLOCK]
            if -np.inf < best < np.inf:
                some = T(0)
                for j in range(part.size):
                    some += exp2((part[j] - best) * to_2)
                total += some
            if count < k or tops[b] > values[i, k - 1]:
                for j in range(part.size):
                    if part[j] > -np.inf and (count < k or part[j] > values[i, k - 1]):
                        count = _insert(part[j], first + b * BLOCK + j, k, count, values[i], places[i])
        for j in range(row.size):  # the rest are −inf or no numbers
            if count == k:
                break
            if not row[j] > -np.inf:
                values[i, count], places[i, count] = row[j], first + j
                count += 1
        whole[i] = best + math.log(total) if total > 0 else best
