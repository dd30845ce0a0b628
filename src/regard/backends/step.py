"""The step backend: a few queries, as in decoding with a cache, attend to many keys without copying them.

Softmax, sparsemax and 1.5-entmax of dot products, maybe with a bias by distance and a sink, without gradient,
on the CPU. Heads that share keys (an axis of size 1, or expanded) read them once. Half precision is widened
as it is read, and computed with as float32.
"""

import ctypes
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.backends.call import Call
from regard.backends.workspace import workspace
from regard.core.shapes import joined, widened
from regard.kernels.common.operator import is_plain
from regard.kernels.common.pool import call_in_threads, load_kernels
from regard.kernels.decoding.step_arguments import Arguments
from regard.positions.by_distance import DistanceTerm
from regard.positions.rotary import Rotary
from regard.scores.bilinear import Bilinear
from regard.scores.dot import Dot
from regard.scores.scaled_dot import ScaledDot
from regard.scores.score import ByDistance, Score, Sum, check_same_width
from regard.scores.temperature import Temperature

HALVES = {"softmax": 0.0, "sparsemax": 1.0, "entmax15": 0.5}  # the maps it takes, and h of their threshold
FEW = 8  # queries
MANY = 128  # keys, below which the bookkeeping costs more than it saves
HALF = (torch.bfloat16, torch.float16)
WIDE = {torch.float64: torch.float64, **dict.fromkeys((torch.float32, *HALF), torch.float32)}  # computed with
LEAST = 1 << 21  # numbers multiplied per thread: a second one is waited for, and gains nothing below that


class Plan(NamedTuple):
    """What follows from shapes and strides alone."""

    batch: tuple[int, ...]
    rows: int
    arrays: tuple[
        NDArray[Any], ...
    ]  # groups as the kernel takes them; lo, hi, sink of rows that see all keys
    addresses: tuple[int, ...]  # of these
    groups: int
    chunks: int
    counters: Any  # a type: an array of so many integers


def takes(call: Call) -> bool:
    """Whether the call is one of these maps of dot products, with few queries, many keys and no gradient."""
    query, keys, values = call.query, call.keys, call.values
    return (
        query.shape[-2] <= FEW
        and keys.shape[-2] >= MANY
        and call.name in HALVES
        and isinstance(call.score, Score)
        and call.value_term is None
        and not call.dropout
        and query.dtype in WIDE
        and not call.tracked
        and is_plain(query, keys, values)
        and keys.stride(-1) == 1
        and values.stride(-1) == 1
        and (call.mask is None or _ends(call) is not None)
    )


def step(call: Call) -> Tensor | None:
    """Context (..., m, d_v), or None if the score makes other keys, or adds more than a bias by distance."""
    query, keys, values, m, d = call.query, call.keys, call.values, call.m, call.keys.shape[-1]
    distance, scale = None, call.factor
    if type(call.score) is ScaledDot:
        check_same_width("scaled_dot", query, keys)
        scale *= max(d, 1) ** -0.5 if call.score.scale is None else call.score.scale
    else:
        found = call.products(keys_as_stored=True) if _leaves_keys(call.score, call) else None
        if found is None or found.keys is not keys or found.bias is not None or found.cap is not None:
            return None
        query, distance, scale = found.query, found.distance, 1.0
        if query.shape[-2:] != (m, d) or query.dtype != WIDE[keys.dtype]:
            return None  # a score of one's own: the kernel would read what is not there
    plan, query = _plan(call), widened(query)
    if query.shape[:-2] != plan.batch:
        query = query.expand(*plan.batch, m, d)
    query = query if query.is_contiguous() else query.contiguous()
    kind = query.dtype
    context = torch.empty((*plan.batch, m, values.shape[-1]), dtype=kind)
    if plan.rows == 0:
        return context
    groups, lo, hi, sink = plan.addresses
    held: list[Any] = []  # what the kernel reads
    if call.mask is not None:
        ends = _ends(call)
        assert ends is not None  # takes(call)
        held = [end.expand(*plan.batch, m).to(torch.int64).contiguous() for end in ends]
        lo, hi = (end.data_ptr() for end in held)
    if call.sink is not None:
        held.append(call.sink.to(kind).expand(*plan.batch, m).contiguous())
        sink = held[-1].data_ptr()
    table, first, columns = 0, 0, 0
    if distance is not None:
        table, first, columns = _table(distance, plan, m, kind, held)
    half, n, rows, chunks, d_v = HALVES[call.name], call.n, plan.rows, plan.chunks, values.shape[-1]
    size, each = context.element_size(), rows * chunks
    work = workspace(size * (2 * each + (rows * (n + 4) if half else each * d_v)), held)
    counters = plan.counters()
    large = work + 2 * size * each
    struct = Arguments(
        0, query.data_ptr(), keys.data_ptr(), values.data_ptr(), context.data_ptr(), groups, lo, hi, sink,
        table, first, columns, large, work, work + size * each, large, ctypes.addressof(counters), rows, n, d,
        d_v, keys.stride(-2), values.stride(-2), plan.groups, chunks, scale, half,
    )  # fmt: skip
    run = load_kernels("regard.kernels.decoding.step_kernel").compiled_step(keys.dtype)
    products = rows * n * (d if half else d + d_v)
    width = min(torch.get_num_threads(), plan.groups * chunks, products // LEAST)
    call_in_threads(run, ctypes.addressof(struct), width)
    return context


def _ends(call: Call) -> tuple[Tensor, Tensor] | None:
    assert call.mask is not None
    return call.mask.interval(call.m, call.n, len(call.batch), call.query.device)


def _table(
    distance: ByDistance, plan: Plan, m: int, kind: torch.dtype, held: list[Any]
) -> tuple[int, int, int]:
    """Where the table of a bias by distance is, and the first column of each row; how many columns."""
    bias = distance.table.detach().to(kind)
    held.append(bias.expand(*plan.batch, m, bias.shape[-1]).contiguous())
    held.append(torch.arange(plan.rows) % m + distance.first)
    return held[-2].data_ptr(), held[-1].data_ptr(), bias.shape[-1]


def _leaves_keys(score: Any, call: Call) -> bool:
    """Whether the score's products have the keys as they are: then these may stay in half precision."""
    if call.keys.dtype not in HALF:
        return True  # who makes others is found out
    if isinstance(score, Rotary):
        return call.place is not None and call.place.encoded and _leaves_keys(score.score, call)
    if isinstance(score, Temperature):
        return _leaves_keys(score.score, call)
    if type(score) is Sum:
        return all(isinstance(term, DistanceTerm) for term in score.terms) and _leaves_keys(score.score, call)
    return type(score) in (ScaledDot, Dot, Bilinear)


def _plan(call: Call) -> Plan:
    query, keys, values = call.query, call.keys, call.values
    return _planned(query.dtype, query.shape, keys.shape, keys.stride(), values.shape, values.stride())


@lru_cache(256)
def _planned(
    kind: torch.dtype,
    query: torch.Size,
    keys: torch.Size,
    key_strides: tuple[int, ...],
    values: torch.Size,
    value_strides: tuple[int, ...],
) -> Plan:
    batch, m, n = tuple(joined(query[:-2], keys[:-2], values[:-2])), query[-2], keys[-2]
    both = np.stack([_offsets(batch, keys, key_strides), _offsets(batch, values, value_strides)], -1)
    begins = np.flatnonzero(np.r_[True, (both[1:] != both[:-1]).any(-1)]) if len(both) else np.empty(0, int)
    ends = np.r_[begins[1:], len(both)] if len(both) else begins
    kernels = load_kernels("regard.kernels.decoding.step_kernel")
    groups = [
        (row, min(row + kernels.TOGETHER, end * m), *both[begin])
        for begin, end in zip(begins, ends, strict=True)
        for row in range(begin * m, end * m, kernels.TOGETHER)
    ]
    rows, wide = len(both) * m, np.float64 if kind is torch.float64 else np.float32
    arrays = (
        np.array(groups, np.int64).reshape(-1, 4),
        np.zeros(rows, np.int64),
        np.full(rows, n, np.int64),
        np.full(rows, -np.inf, wide),
    )
    return Plan(
        batch,
        rows,
        arrays,
        tuple(int(array.ctypes.data) for array in arrays),
        len(groups),
        -(-n // kernels.CHUNK),
        ctypes.c_int64 * (len(groups) + 1),
    )


def _offsets(batch: tuple[int, ...], shape: torch.Size, strides: tuple[int, ...]) -> NDArray[np.int64]:
    """Where the first key of each of the batch is in memory; an axis of size 1 is shared."""
    found = np.zeros(batch, np.int64)
    for axis, (size, stride) in enumerate(
        zip(reversed(shape[:-2]), reversed(strides[:-2]), strict=True), start=1
    ):
        steps = np.arange(size) * stride
        found += steps.reshape(-1, *[1] * (axis - 1))
    return found.reshape(-1)
