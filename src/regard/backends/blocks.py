"""The block backend: the three steps for a few queries at a time, done again in backward.

Any score, any row map, any mask and term, at memory linear in n: nothing of size m × n outlives its block.
"""

from math import prod

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.backends.call import Call
from regard.backends.plain import plain

BUDGET = 1 << 22  # numbers held at once while scoring a block


def size(call: Call) -> int:
    """Numbers the plain backend would hold for this call."""
    return prod(call.batch) * call.m * call.n * int(getattr(call.score, "per_pair", 1))


def blocks(call: Call) -> Tensor:
    """Context (..., m, d_v)."""
    step = max(1, min(call.m, BUDGET * call.m // max(size(call), 1)))
    parts = []
    for start in range(0, call.m, step):
        block = call.rows(start, min(start + step, call.m))
        if call.tracked:
            parts.append(checkpoint(_context, block, use_reentrant=False))
        else:
            parts.append(_context(block))
    return torch.cat(parts, -2)


def _context(block: Call) -> Tensor:
    return plain(block)[0]
