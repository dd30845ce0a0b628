"""The memory of segments: hidden states of the last tokens, which no gradient goes into.

    kept = the last `size` of [memory; states]        forgotten = what is before them

It holds hidden states, not keys and values: these are projected anew with the weights of the moment, so that
the projections learn from the memory too (Dai et al. 2019, arXiv:1901.02860, §3.2). New states stand at the
end, the oldest at the front; what falls out does so at the front.
"""

import torch
from torch import Tensor


def remember(memory: Tensor | None, states: Tensor, size: int, rate: int = 1) -> tuple[Tensor, Tensor]:
    """The memory (b, k, d) after new states (b, m, d), and what it forgot (b, f, d), both detached.

    f is a multiple of `rate`, so that it can be compressed; the memory keeps up to rate − 1 more for that.
    """
    if size < 0 or rate < 1:
        raise ValueError(f"size must be at least 0 and rate at least 1; got {size} and {rate}.")
    new = states.detach()
    every = new if memory is None else torch.cat([memory.detach(), new], -2)
    gone = max(0, every.shape[-2] - size) // rate * rate
    return every[..., gone:, :], every[..., :gone, :]
