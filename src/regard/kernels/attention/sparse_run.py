"""The kernels of sparse attention, called with tensors."""

from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.kernels.attention.sparse_layout import (
    Sizes,
    arrays,
    components,
    matrices,
    panels_of,
    slices,
    whole_vectors,
    zeros,
)
from regard.kernels.common.pool import over_rows

PARTS = 8  # pieces that the work of backward is cut into where there are fewer slices, each with own sums
FEWER = 2  # where slices share keys: these do so to save memory
BIAS, TABLE = 1, 2  # in a sum: whose gradient is wanted


def empty(query: Tensor, values: Tensor, lo: Tensor, room: int) -> tuple[Tensor, ...]:
    """What `forward` fills: the context (..., m, d_v), and for backward floors, begins, sizes (B, m), places,
    weights."""
    m = query.shape[-2]
    batch = prod(query.shape[:-2])
    rows = (batch, m) if room else (0, 0)
    entries = batch * -(-m // group()) * group() * room  # pages never written cost nothing
    floors, begins, sizes = query.new_empty(rows), lo.new_empty(rows, dtype=torch.int64), lo.new_empty(rows)
    context = query.new_empty(*query.shape[:-1], values.shape[-1])
    return context, floors, begins, sizes, lo.new_empty(entries), query.new_empty(entries)


def forward(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, table: Tensor | None,
    sink: Tensor | None, lo: Tensor, hi: Tensor, mask: Tensor | None, seed: Tensor | None, half: float,
    first: int, cap: float, rate: float, room: int,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Context (..., m, d_v) of query (..., m, d), with all axes of the batch, and what backward needs."""
    from regard.kernels.attention.sparse_forward import forward as kernel

    batch, (m, _), (n, width) = _sizes(query), query.shape[-2:], values.shape[-2:]
    shared = slices(_sizes(keys), batch), slices(_sizes(values), batch)
    query, keys, values = (whole_vectors(t) for t in (query, keys, values))
    context, *kept = empty(query, values, lo, room)
    rows = len(query) * -(-m // group())
    over_rows(
        kernel, rows, len(query) * m * n, np.zeros(1, np.int64), *arrays(query, panels_of(keys), values),
        shared, _view(batch, m, lo, hi, mask), _terms(batch, query, bias, table, sink, first, cap),
        _drop(seed, rate), half, *arrays(context), room, np.zeros(1, np.int64), arrays(*kept), pieces=1,
    )  # fmt: skip
    return context[..., :width].contiguous().view(*batch, m, width), *kept


def backward(
    gradient: Tensor, query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, table: Tensor | None,
    sink: Tensor | None, lo: Tensor, hi: Tensor, mask: Tensor | None, seed: Tensor | None, half: float,
    first: int, cap: float, rate: float, wanted: int, *kept: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Gradients of query, keys, values, bias, table and sink; of those not there or not wanted, empty."""
    from regard.kernels.attention.sparse_backward import backward as kernel
    from regard.kernels.attention.sparse_lists import AGAIN

    batch, m, given = _sizes(query), query.shape[-2], (query, keys, values)
    shared = _sizes(keys), _sizes(values)
    bias_wanted, table_wanted = bias if wanted & BIAS else None, table if wanted & TABLE else None
    matrix = bias_wanted is not None and min(bias_wanted.shape[-2:]) > 1
    own = _sizes(bias_wanted) if bias_wanted is not None and matrix else batch
    owners = components(batch, *shared, own)
    gradient, query, keys, values = (whole_vectors(t) for t in (gradient, query, keys, values))
    rows = owners.shape[1] * m
    most = PARTS if owners.shape[1] == 1 else FEWER  # whatever the number of threads: the same sums
    parts = max(1, min(most // len(owners), rows // 1024, m))
    dq = torch.empty_like(query)
    dk, dv = (zeros(t, parts, *t.shape) for t in (keys, values))
    sums = [
        _sums(term, query, batch, parts, alone)
        for term, alone in ((bias_wanted, matrix), (table_wanted, False))
    ]
    steps = (*_steps(sums[0], own, batch), *_steps(sums[1], batch, batch))
    dsink = query.new_empty((0, 0) if sink is None else (len(query), m))
    again = bool((kept[2].numpy() == AGAIN).any())
    over_rows(
        kernel, len(owners) * parts, len(query) * m * min(keys.shape[1], 32) * 16, np.zeros(1, np.int64),
        *arrays(query, keys, values, gradient, panels_of(keys if again else keys[:0])),
        (slices(shared[0], batch), slices(shared[1], batch)), owners, _view(batch, m, lo, hi, mask),
        _terms(batch, query, bias, table, sink, first, cap), _drop(seed, rate), half, arrays(*kept),
        *arrays(dq, dk, dv), (*steps, dsink.numpy()), pieces=1,
    )  # fmt: skip
    dk, dv = (t[0] if parts == 1 else t.sum(0) for t in (dk, dv))
    found = [
        t[..., : x.shape[-1]].contiguous().view(x.shape) for t, x in zip((dq, dk, dv), given, strict=True)
    ]
    for term, sum, alone in ((bias_wanted, sums[0], matrix), (table_wanted, sums[1], False)):
        if term is None:
            found.append(query.new_empty(0))
        elif alone:
            found.append(sum.view(term.shape))
        else:
            found.append(sum.sum(0).view(*batch, *term.shape[-2:]).sum_to_size(term.shape))
    return *found, dsink if sink is None else dsink.view(*batch, m)


def _sums(term: Tensor | None, like: Tensor, batch: Sizes, parts: int, alone: bool) -> Tensor:
    """Zeros (parts or 1, slices, rows or 1, columns) to sum the gradient of a term in.

    Every slice of the batch has its own, and every part where these share rows; but a matrix `alone` has one
    for all, since its components own all that share a slice of it.
    """
    if term is None:
        return like.new_empty(0, 0, 0, 0)
    many = prod(_sizes(term)) if alone else prod(batch)
    return zeros(like, 1 if term.shape[-2] > 1 else parts, many, *term.shape[-2:])


def _steps(sums: Tensor, own: Sizes, batch: Sizes) -> tuple[Any, ...]:
    """The numbers of `_sums`, their step along parts, where slices begin, steps along rows and columns."""
    parts, many, rows, columns = sums.shape
    at = slices(own, batch) * (rows * columns)
    along = 0 if parts == 1 else many * rows * columns
    return sums.view(-1).numpy(), along, at, columns if rows > 1 else 0, 1 if columns > 1 else 0


def _sizes(tensor: Tensor) -> Sizes:
    return tuple(tensor.shape[:-2])


def _view(batch: Sizes, m: int, lo: Tensor, hi: Tensor, mask: Tensor | None) -> tuple[Any, ...]:
    """What rows may look at."""
    ends = (end.expand(*batch, m).reshape(-1, m).contiguous() for end in (lo, hi))
    return *arrays(*ends), *matrices(mask, batch, np.uint8)


def _terms(
    batch: Sizes, query: Tensor, bias: Tensor | None, table: Tensor | None, sink: Tensor | None, first: int,
    cap: float,
) -> tuple[Any, ...]:  # fmt: skip
    """What is added to the scores."""
    dtype, m = query.detach().numpy().dtype, query.shape[-2]
    by_distance = matrices(None if table is None else table.contiguous(), batch, dtype)[:3]
    more = np.empty((0, 0), dtype) if sink is None else sink.detach().expand(*batch, m).reshape(-1, m).numpy()
    length = 1 if table is None else table.shape[-1]
    return (
        *matrices(bias, batch, dtype), *by_distance, length, first, cap, np.ascontiguousarray(more)
    )  # fmt: skip


def _drop(seed: Tensor | None, rate: float) -> tuple[np.uint32, np.uint32, np.uint32, float]:
    """The seed in two halves, the threshold below which weights are dropped, and the factor of the others."""
    number = 0 if seed is None else int(seed)
    return np.uint32(number & 0xFFFFFFFF), np.uint32(number >> 32), np.uint32(rate * 2**32), 1 / (1 - rate)


def factors(like: Tensor, seed: Tensor, rate: float) -> Tensor:
    """What dropout multiplies each of the weights (..., m, n) by."""
    from regard.kernels.attention.dropout_kernel import factors as kernel

    answer = torch.empty_like(like, memory_format=torch.contiguous_format, requires_grad=False)
    rows = answer.view(-1, answer.shape[-1])
    over_rows(kernel, len(rows), rows.numel(), rows.numpy(), *_drop(seed, rate))
    return answer


def group() -> int:
    """How many queries are searched together."""
    from regard.kernels.attention.sparse_lists import GROUP

    return GROUP
