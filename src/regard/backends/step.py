"""The step backend: a few queries, as in decoding with a cache, attend to many keys without copying them.

Softmax, sparsemax and 1.5-entmax of dot products, without gradient, on the CPU. Heads that share keys (an
axis of size 1, or expanded) read them once.
"""

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.backends.call import Call
from regard.kernels.common.operator import is_plain
from regard.kernels.common.pool import load_kernels, over_rows
from regard.scores.score import Factored

HALVES = {"softmax": 0.0, "sparsemax": 1.0, "entmax15": 0.5}  # the maps it takes, and h of their threshold
FEW = 8  # queries
MANY = 128  # keys, below which the bookkeeping costs more than it saves
KINDS = (torch.float32, torch.float64)


def takes(call: Call) -> bool:
    """Whether the call is one of these maps of dot products, with few queries, many keys and no gradient."""
    tensors = call.query, call.keys, call.values
    return (
        call.m <= FEW
        and call.n >= MANY
        and call.name in HALVES
        and isinstance(call.score, Factored)
        and not call.dropout
        and call.sink is None
        and call.query.dtype in KINDS
        and call.keys.stride(-1) == 1
        and call.values.stride(-1) == 1
        and not call.tracked
        and is_plain(*tensors)
        and (call.mask is None or _ends(call) is not None)
    )


def step(call: Call) -> Tensor | None:
    """Context (..., m, d_v), or None if the score makes other keys of the keys."""
    query, keys = call.factors()
    if keys is not call.keys:
        return None
    batch, m, n, values = call.batch, call.m, call.n, call.values
    shape = tuple(batch)
    groups = _groups(shape, m, *(_strides(t, len(shape)) for t in (keys, values)))
    factor = query.detach().expand(*shape, m, query.shape[-1]).reshape(-1, query.shape[-1]).contiguous()
    rows = len(factor)
    if call.mask is None:
        lo, hi = _all(rows, n)
    else:
        ends = _ends(call)
        assert ends is not None  # takes(call)
        lo, hi = (end.expand(*shape, m).reshape(-1).to(torch.int64).numpy() for end in ends)
    context = values.new_empty(*shape, m, values.shape[-1])
    work = rows * n * query.shape[-1]
    over_rows(
        load_kernels("regard.kernels.decoding.step_kernel").step, len(groups), work, factor.numpy(), groups,
        _memory(keys), keys.stride(-2), _memory(values), values.stride(-2), lo, hi, HALVES[call.name],
        context.view(rows, -1).numpy(), pieces=1,
    )  # fmt: skip
    return context


def _ends(call: Call) -> tuple[Tensor, Tensor] | None:
    assert call.mask is not None
    return call.mask.interval(call.m, call.n, len(call.batch), call.query.device)


def _strides(tensor: Tensor, axes: int) -> tuple[int, ...]:
    """The step of each of so many axes before the last two; 0 where the tensor has one element or no axis."""
    sizes = zip(tensor.shape[:-2], tensor.stride()[:-2], strict=True)
    own = [0 if size == 1 else stride for size, stride in sizes]
    return (0,) * (axes - len(own)) + tuple(own)


def _memory(tensor: Tensor) -> NDArray[np.generic]:
    """The numbers behind a tensor from its first to its last, as one row."""
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    found: NDArray[np.generic] = tensor.detach().as_strided((last + 1,), (1,)).numpy()
    return found


@lru_cache(64)
def _groups(
    shape: tuple[int, ...],
    m: int,
    key_strides: tuple[int, ...],
    value_strides: tuple[int, ...],
) -> NDArray[np.int64]:
    """Neighbouring rows of (*shape, m) with the same keys and values, as the kernel takes them."""
    at = [np.zeros(shape, np.int64) for _ in range(2)]
    for offsets, strides in zip(at, (key_strides, value_strides), strict=True):
        for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
            offsets += (np.arange(size) * stride).reshape(-1, *[1] * (len(shape) - axis - 1))
    both = np.stack([offsets.reshape(-1) for offsets in at], -1)
    begins = np.flatnonzero(np.r_[True, (both[1:] != both[:-1]).any(-1)])
    ends = np.r_[begins[1:], len(both)]
    return np.column_stack([begins * m, ends * m, both[begins]])


@lru_cache(64)
def _all(rows: int, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.zeros(rows, np.int64), np.full(rows, n, np.int64)
