"""The step backend: a few queries, as in decoding with a cache, attend to many keys without copying them.

Softmax, sparsemax and 1.5-entmax of dot products, maybe with a bias by distance and a sink, without gradient,
on the CPU. Heads that share keys (an axis of size 1, or expanded) read them once. Softmax of heads that share
none is as fast in torch's own kernel, and left to it.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from regard.backends.call import Call
from regard.core.shapes import joined
from regard.kernels.common.operator import is_plain
from regard.kernels.common.pool import load_kernels, over_rows
from regard.scores.scaled_dot import ScaledDot
from regard.scores.score import Products, Score

HALVES = {"softmax": 0.0, "sparsemax": 1.0, "entmax15": 0.5}  # the maps it takes, and h of their threshold
FEW = 8  # queries
SHORT = 2048  # keys, below which torch's kernel is the faster one for softmax, given a group as one head
MANY = 128  # keys, below which the bookkeeping costs more than it saves
KINDS = (torch.float32, torch.float64)
LEAST = 1 << 20  # products of a query and a key per thread, in numbers: waking one takes some 40 µs


class Plan(NamedTuple):
    """What follows from shapes and strides alone."""

    batch: tuple[int, ...]
    rows: int
    groups: NDArray[np.int64]  # as the kernel takes them
    shared: bool  # whether a group has rows of several heads
    key_extent: int  # numbers from the first to the last of the keys in memory
    value_extent: int
    lo: NDArray[np.int64]  # every row sees all keys
    hi: NDArray[np.int64]
    without: NDArray[np.generic]  # no row has a sink
    no_table: NDArray[np.generic]


def takes(call: Call) -> bool:
    """Whether the call is one of these maps of dot products, with few queries, many keys and no gradient."""
    query, keys, values = call.query, call.keys, call.values
    return (
        query.shape[-2] <= FEW
        and keys.shape[-2] >= MANY
        and (name := call.name) in HALVES
        and isinstance(call.score, Score)
        and call.value_term is None
        and not call.dropout
        and query.dtype in KINDS
        and not call.tracked
        and is_plain(query, keys, values)
        and keys.stride(-1) == 1
        and values.stride(-1) == 1
        and (name != "softmax" or _plan(call).shared)
        and (call.mask is None or _ends(call) is not None)
    )


def step(call: Call) -> Tensor | None:
    """Context (..., m, d_v), or None if the score makes other keys, or adds more than a bias by distance."""
    if type(call.score) is ScaledDot and call.factor == 1:  # the same, without the way round for groups
        found: Products | None = Products(*call.score.factors(call.query, call.keys))
    else:
        found = call.products()
    if found is None or found.keys is not call.keys or found.bias is not None or found.cap is not None:
        return None
    query, keys = found.query, found.keys
    if call.mask is None and call.sink is None and found.bare and _short(call):
        one = F.scaled_dot_product_attention(
            query.flatten(-3, -2), keys.squeeze(-3), call.values.squeeze(-3), scale=1.0
        )
        return one.view(*query.shape[:-1], one.shape[-1])
    plan, values, m, d = _plan(call), call.values, query.shape[-2], query.shape[-1]
    kernels = load_kernels("regard.kernels.decoding.step_kernel")
    if query.shape[:-2] != plan.batch:
        query = query.expand(*plan.batch, m, d)
    query = query.detach().reshape(-1, d).contiguous()
    n, lo, hi = keys.shape[-2], plan.lo, plan.hi
    if call.mask is not None:
        ends = _ends(call)
        assert ends is not None  # takes(call)
        lo, hi = (end.expand(*plan.batch, m).reshape(-1).to(torch.int64).numpy() for end in ends)
    sink, table, column = plan.without, plan.no_table, plan.lo
    if call.sink is not None:
        sink = call.sink.detach().to(query.dtype).expand(*plan.batch, m).reshape(-1).numpy()
    if found.distance is not None:
        bias = found.distance.table.detach().to(query.dtype)
        table = bias.expand(*plan.batch, m, bias.shape[-1]).reshape(plan.rows, -1).numpy()
        column = np.arange(plan.rows) % m + found.distance.first
    context = values.new_empty((*plan.batch, m, values.shape[-1]))
    answer = context.numpy().reshape(plan.rows, -1)
    half, chunks, kind = HALVES[call.name], -(-n // kernels.CHUNK), answer.dtype
    theta = np.empty((plan.rows, n + 4) if half else (1, 1), kind)
    parts = np.empty((1, 1, 1) if half else (plan.rows, chunks, answer.shape[1]), kind)
    tops, sums = np.empty((2, plan.rows, chunks), kind)
    over_rows(
        kernels.step, len(plan.groups) * chunks, plan.rows * n * d, query.numpy(), plan.groups, chunks,
        _memory(keys, plan.key_extent), keys.stride(-2), _memory(values, plan.value_extent),
        values.stride(-2), lo, hi, sink, table, column, half, theta, tops, sums, parts,
        np.zeros(len(plan.groups), np.int64), answer, least=LEAST, pieces=2,
    )  # fmt: skip
    return context


def _ends(call: Call) -> tuple[Tensor, Tensor] | None:
    assert call.mask is not None
    return call.mask.interval(call.m, call.n, len(call.batch), call.query.device)


def _short(call: Call) -> bool:
    """Whether it is a softmax of groups of heads, (b, kv, g, m, d), whose queries torch can take as one's."""
    return (
        call.name == "softmax"
        and call.n < SHORT
        and call.query.dim() == call.keys.dim() == call.values.dim() == 5
        and call.keys.shape[-3] == call.values.shape[-3] == 1
        and call.query.shape[:2] == call.keys.shape[:2] == call.values.shape[:2]
    )


def _memory(tensor: Tensor, extent: int) -> NDArray[np.generic]:
    """The numbers behind a tensor from its first to its last, as one row."""
    tensor = tensor.detach() if tensor.requires_grad else tensor
    found: NDArray[np.generic] = tensor.as_strided((extent,), (1,)).numpy()
    return found


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
    ends = np.r_[begins[1:], len(both)]
    together = load_kernels("regard.kernels.decoding.step_kernel").TOGETHER
    groups = [
        (row, min(row + together, end * m), *both[begin])
        for begin, end in zip(begins, ends, strict=True)
        for row in range(begin * m, end * m, together)
    ]
    rows = len(both) * m
    return Plan(
        batch,
        rows,
        np.array(groups, np.int64).reshape(-1, 4),
        len(begins) < len(both),
        _extent(keys, key_strides),
        _extent(values, value_strides),
        np.zeros(rows, np.int64),
        np.full(rows, n, np.int64),
        torch.full((rows,), -torch.inf, dtype=kind).numpy(),
        torch.empty(rows, 0, dtype=kind).numpy(),
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


def _extent(shape: torch.Size, strides: tuple[int, ...]) -> int:
    return 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
