"""Sparse attention: exact sparsemax and 1.5-entmax of dot products, at the cost of the support.

    θ = cap · tanh((QKᵀ + bias + table[j − i]) / cap)        p = map(θ)        z = pV        dθ = J dp

A row keeps the few keys that have weight, as indices and √p (1.5-entmax) or p (sparsemax): forward gathers
their values, backward touches those keys alone, since J is 0 elsewhere. A row whose support finds no room is
found again in backward, from a bound kept in forward: memory grows linearly with n whatever the scores are.
Keys and values that several slices of queries share (axes of size 1) are read where they are.

Tensors that NumPy may not have (fake ones, those of a tracer or the compiler) go through operators, which
count as many FLOPs as the plain three steps do.

Martins & Astudillo (2016), arXiv:1602.02068; Peters, Niculae & Martins (2019), arXiv:1905.05702.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor

from regard.core.shapes import joined
from regard.kernels.attention.sparse_run import BIAS, TABLE, backward, empty, factors, forward
from regard.kernels.common.operator import is_plain, like, one_by_one, opaque
from regard.kernels.row_maps.entmax15_operator import entmax15_operator
from regard.kernels.row_maps.sparsemax_operator import sparsemax_operator

HALF = {2.0: 1.0, 1.5: 0.5}  # α and the h = α − 1 of the kernels
MAPS = {1.0: sparsemax_operator, 0.5: entmax15_operator}
ROOM = 64  # entries that may be stored per row, on average
LEAST = 1 << 19  # entries that a slice may store in any case


def sparse_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    alpha: float,
    lo: Tensor | None = None,
    hi: Tensor | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    table: Tensor | None = None,
    first: int = 0,
    sink: Tensor | None = None,
    cap: float | None = None,
    rate: float = 0.0,
) -> Tensor:
    """Context (..., m, d_v) of query (..., m, d), keys (..., n, d), values (..., n, d_v); α = 2 or 1.5.

    Row i may look at keys lo ≤ j < hi, (..., m or 1), where the mask, which broadcasts to (..., m, n), is
    True. To q·k are added the bias, which broadcasts to (..., m, n), and, of a table (..., m or 1, L),
    table[..., i or 0, clip(j − i − first)]. A sink (..., m or 1) is the score of one more key, without value.
    `rate` is that of dropout on the weights.
    """
    m, n, width = query.shape[-2], keys.shape[-2], values.shape[-1]
    mask, bias, table = (
        t if t is None or t.dim() > 1 else t.reshape(1, -1) for t in (mask, bias, table)
    )  # at least two axes
    matrices = [t.shape[:-2] for t in (query, keys, values, mask, bias, table) if t is not None]
    batch = joined(*matrices, *(t.shape[:-1] for t in (lo, hi, sink) if t is not None))
    if prod(batch) * m * n == 0:
        return (query.sum() + keys.sum() + values.sum()) * 0 + query.new_zeros(*batch, m, width)
    begins = query.new_zeros(1, dtype=torch.int32) if lo is None else lo.clamp(0, n).to(torch.int32)
    ends = query.new_full((1,), n, dtype=torch.int32) if hi is None else hi.clamp(0, n).to(torch.int32)
    bias, table = (None if t is None else t.to(query.dtype) for t in (bias, table))
    sink = None if sink is None else sink.to(query.dtype).expand(*batch, m)
    seed = torch.randint(0, 1 << 62, (1,)) if rate else None
    query = query.expand(*batch, *query.shape[-2:])
    learned = [t for t in (query, keys, values, bias, table, sink) if t is not None]
    inputs = query, keys, values, bias, table, sink, begins, ends, mask, seed
    settings = HALF[alpha], first, 0.0 if cap is None else cap, rate
    if torch.is_grad_enabled() and any(t.requires_grad for t in learned):
        wanted = BIAS * (bias is not None and bias.requires_grad)
        wanted += TABLE * (table is not None and table.requires_grad)
        if torch.compiler.is_compiling():  # the compiler wants a Function's inputs apart
            inputs = query.view_as(query), keys.view_as(keys), values.view_as(values), *inputs[3:]
        run: Callable[..., Tensor] = _Sparse.apply
        return run(*inputs, *settings, wanted)
    context: Tensor = _chosen(forward, forward_operator, *learned)(*inputs, *settings, 0)[0]
    return context


def _chosen(kernel: Callable[..., Any], operator: Callable[..., Any], *tensors: Tensor) -> Callable[..., Any]:
    return kernel if is_plain(*tensors) else operator


class _Sparse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, values: Tensor, *others: Any) -> Tensor:
        *inputs, wanted = query, keys, values, *others
        room = min(keys.shape[-2], max(ROOM, LEAST // query.shape[-2]))
        context, *kept = _chosen(forward, forward_operator, query, keys, values)(*inputs, room)
        ctx.save_for_backward(*inputs[:TENSORS], *kept)
        ctx.settings, ctx.wanted = inputs[TENSORS:], wanted
        made: Tensor = context
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        inputs, kept, nothing = saved[:TENSORS], saved[TENSORS:], (None,) * 9
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            run = _chosen(backward, backward_operator, gradient, *inputs[:3])
            found = run(gradient, *inputs, *ctx.settings, ctx.wanted, *kept)
            bias, table, sink = (ctx.wanted & BIAS, ctx.wanted & TABLE, inputs[5] is not None)
            more = (t if there else None for t, there in zip(found[3:], (bias, table, sink), strict=True))
            return *found[:3], *more, *nothing
        learned: list[Any] = [None if t is None else t.view_as(t) for t in inputs[:6]]  # apart, even if one
        context = _steps(*learned, *inputs[6:], *ctx.settings)
        needed = ctx.needs_input_grad[:6]
        wanted = [t for t, need in zip(learned, needed, strict=True) if need and t is not None]
        answers = iter(torch.autograd.grad(context, wanted, gradient, create_graph=True))
        return *(next(answers) if need else None for need in needed), *nothing


def _steps(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, table: Tensor | None,
    sink: Tensor | None, lo: Tensor, hi: Tensor, mask: Tensor | None, seed: Tensor | None, half: float,
    first: int, cap: float, rate: float,
) -> Tensor:  # fmt: skip
    """The plain three steps, for second derivatives."""
    theta = query @ keys.mT
    (m, n), j = theta.shape[-2:], torch.arange(keys.shape[-2])
    theta = theta if bias is None else theta + bias
    if table is not None:
        index = (j - torch.arange(m).unsqueeze(-1) - first).clamp(0, table.shape[-1] - 1)  # (m, n)
        theta = theta + table.expand(*table.shape[:-2], m, -1).gather(
            -1, index.expand(*table.shape[:-2], m, n)
        )
    theta = cap * (theta / cap).tanh() if cap else theta
    visible = (j >= lo.unsqueeze(-1)) & (j < hi.unsqueeze(-1))  # (..., m or 1, n)
    visible = visible if mask is None else visible & mask
    theta = theta.masked_fill(~visible, float("-inf"))
    if sink is not None:
        theta = torch.cat([theta, sink.unsqueeze(-1)], -1)
    weights = MAPS[half](theta)[..., :n]
    return (weights if seed is None else weights * factors(weights, seed, rate)) @ values


def _flops(query: torch.Size, keys: torch.Size, values: torch.Size, *_: Any, **__: Any) -> int:
    """QKᵀ, 8 for each score as every row map counts, pV."""
    return prod(query[:-1]) * keys[-2] * (2 * query[-1] + 8 + 2 * values[-1])


TENSORS = 10  # inputs before the settings
INPUTS = (
    "Tensor query, Tensor keys, Tensor values, Tensor? bias, Tensor? table, Tensor? sink, Tensor lo, "
    "Tensor hi, Tensor? mask, Tensor? seed, float half, int first, float cap, float rate"
)
forward_operator: Callable[..., Any] = opaque(
    "sparse_attention",
    f"({INPUTS}, SymInt room) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    forward,
    fake=lambda query, keys, values, bias, table, sink, lo, *others: empty(query, values, lo, others[-1]),
    vmap=one_by_one(lambda *inputs: forward_operator(*inputs)),
    flops=_flops,
)
backward_operator: Callable[..., Any] = opaque(
    "sparse_attention_backward",
    f"(Tensor gradient, {INPUTS}, int wanted, Tensor floors, Tensor begins, Tensor sizes, Tensor places, "
    "Tensor weights) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    backward,
    fake=lambda gradient, query, keys, values, bias, table, sink, *others: (
        *(like(t) for t in (query, keys, values)),
        *(like(t) if there else query.new_empty(0) for t, there in _wanted(bias, table, others[8])),
        query.new_empty(0, 0) if sink is None else like(sink),
    ),
    vmap=one_by_one(lambda *inputs: backward_operator(*inputs)),
    flops=lambda gradient, query, keys, values, *_, **__: (  # the four products of the plain steps
        4 * prod(query[:-1]) * keys[-2] * (query[-1] + values[-1])
    ),
)


def _wanted(bias: Any, table: Any, wanted: int) -> tuple[tuple[Any, int], ...]:
    return (bias, wanted & BIAS), (table, wanted & TABLE)
