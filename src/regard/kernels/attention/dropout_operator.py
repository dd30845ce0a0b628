"""Dropout at the cost of a multiplication: torch's own, on a CPU, takes most of its time to draw numbers.

    answer = kept · x / (1 − rate)

Which are kept depends on one number drawn from torch's generator, so `torch.manual_seed` repeats it, whatever
the number of threads; backward draws the same again and stores nothing. On other devices, for half precision
and under transforms and the compiler it is torch's.

Srivastava et al. (2014), "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 15.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from regard.kernels.common.operator import is_plain
from regard.kernels.common.pool import over_rows


def dropout(x: Tensor, rate: float) -> Tensor:
    """Each element of x with probability `rate` 0, else divided by 1 − rate."""
    if rate == 0 or not x.numel():
        return x
    if rate == 1 or x.dtype not in (torch.float32, torch.float64) or not is_plain(x):
        return F.dropout(x, rate)
    run: Callable[..., Tensor] = _Dropout.apply
    return run(x, rate, int(torch.randint(0, 1 << 62, ())))


def dropped(x: Tensor, rate: float, seed: int) -> Tensor:
    """The same for one seed, of plain tensors and without a gradient."""
    from regard.kernels.attention.dropout_kernel import BLOCK, forward

    x = x.detach().contiguous()
    answer = torch.empty_like(x)
    arrays = x.numpy().reshape(-1), answer.numpy().reshape(-1)
    keys = np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32), np.uint32(rate * 2**32)
    over_rows(forward, -(-x.numel() // BLOCK), x.numel(), *arrays, *keys, 1 / (1 - rate))
    return answer


class _Dropout(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float, seed: int) -> Tensor:
        ctx.settings, ctx.like = (rate, seed), (x.shape, x.dtype)
        return dropped(x, rate, seed)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        if is_plain(gradient):
            run: Callable[..., Tensor] = _Dropout.apply
            return run(gradient, *ctx.settings), None, None
        shape, dtype = ctx.like
        return gradient * dropped(torch.ones(shape, dtype=dtype), *ctx.settings), None, None
