"""Dropout's kernel: what is kept is decided by a hash of the place, so that backward can decide it again.

    kept_i = [hash(seed, i) ≥ rate · 2³²],     answer_i = kept_i · x_i / (1 − rate)

The hash is two rounds of 32-bit multiply and shift, which eight places share in one vector; torch's generator
gives one number after another. Blocks have keys of their own, and are the rows that threads share out.
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled, pasted

BLOCK = 4096
FIRST, SECOND = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)  # odd, and their bits well spread


@pasted
def _mixed(h: Any) -> Any:
    h = np.uint32((h ^ (h >> np.uint32(16))) * FIRST)
    h = np.uint32((h ^ (h >> np.uint32(15))) * SECOND)
    return np.uint32(h ^ (h >> np.uint32(16)))


@pasted
def row_key(row: Any, low: Any, high: Any) -> Any:
    """The key of a row or block; low and high are the two halves of a seed."""
    return _mixed(np.uint32(_mixed(np.uint32(np.uint32(row) ^ low)) + high))


@pasted
def draw(place: Any, key: Any, high: Any) -> Any:
    """32 random bits for a place in the row of this key."""
    return _mixed(np.uint32(_mixed(np.uint32(np.uint32(place) ^ key)) + high))


@compiled
def forward(
    start: int, stop: int, x: Any, answer: Any, low: Any, high: Any, threshold: Any, scale: float
) -> None:
    """The blocks start … stop of x (size,); low and high are the two halves of a seed."""
    places = np.arange(BLOCK).astype(np.uint32)
    scale, nothing = x.dtype.type(scale), x.dtype.type(0)
    for block in range(start, stop):
        first = block * BLOCK
        key = row_key(block, low, high)
        from_x, to = x[first : first + BLOCK], answer[first : first + BLOCK]
        for j in range(len(from_x)):
            to[j] = from_x[j] * scale if draw(places[j], key, high) >= threshold else nothing


@compiled
def factors(start: int, stop: int, answer: Any, low: Any, high: Any, threshold: Any, scale: float) -> None:
    """What dropout multiplies the weights of rows start … stop by: answer (rows, n), 0 or `scale`."""
    scale, nothing = answer.dtype.type(scale), answer.dtype.type(0)
    for row in range(start, stop):
        key = row_key(row, low, high)
        for j in range(answer.shape[1]):
            answer[row, j] = scale if draw(j, key, high) >= threshold else nothing
