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


@compiled
def forward(
    start: int, stop: int, x: Any, answer: Any, low: Any, high: Any, threshold: Any, scale: float
) -> None:
    """The blocks start … stop of x (size,); low and high are the two halves of a seed."""
    places = np.arange(BLOCK).astype(np.uint32)
    scale, nothing = x.dtype.type(scale), x.dtype.type(0)
    for block in range(start, stop):
        first = block * BLOCK
        key = _mixed(np.uint32(_mixed(np.uint32(np.uint32(block) ^ low)) + high))
        from_x, to = x[first : first + BLOCK], answer[first : first + BLOCK]
        for j in range(len(from_x)):
            drawn = _mixed(np.uint32(_mixed(np.uint32(places[j] ^ key)) + high))
            to[j] = from_x[j] * scale if drawn >= threshold else nothing
