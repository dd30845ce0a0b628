"""Sparse attention: exact sparsemax and 1.5-entmax of dot products, at the cost of the support.

    θ = QKᵀ        p = map(θ)        z = pV        dθ = J dp on the support, 0 elsewhere

A row keeps the few keys that have weight, as indices and √p (1.5-entmax) or p (sparsemax): forward gathers
their values, backward touches those keys alone. A row whose support finds no room is found again in backward,
from a bound kept in forward: memory grows linearly with n whatever the scores are.

Tensors that NumPy may not have (fake ones, those of a tracer or under a mode) go through operators, which
count as many FLOPs as the plain three steps do.

Martins & Astudillo (2016), arXiv:1602.02068; Peters, Niculae & Martins (2019), arXiv:1905.05702.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from regard.kernels.common.operator import is_plain, like, one_by_one, opaque
from regard.kernels.common.pool import over_rows
from regard.kernels.row_maps.entmax15_operator import entmax15_operator
from regard.kernels.row_maps.sparsemax_operator import sparsemax_operator

HALF = {2.0: 1.0, 1.5: 0.5}  # α and the h = α − 1 of the kernels
MAPS = {1.0: sparsemax_operator, 0.5: entmax15_operator}
ROOM = 64  # entries that may be stored per row, on average
LEAST = 1 << 19  # entries that a slice may store in any case
PARTS = 8  # pieces that the work of backward is cut into where there are fewer slices


def sparse_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    alpha: float,
    lo: Tensor | None = None,
    hi: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Context (B, m, d_v) of query (B, m, d), keys (B, n, d), values (B, n, d_v), with θ = q·k; α = 2 or 1.5.

    Row i may look at keys lo ≤ j < hi, broadcasting to (B, m), where the mask, to (B, m, n), is True.
    """
    (batch, m, _), (_, n, width) = query.shape, values.shape
    if batch * m * n == 0:
        return (query.sum() + keys.sum() + values.sum()) * 0 + query.new_zeros(batch, m, width)
    begins = query.new_zeros(1, dtype=torch.int32) if lo is None else lo.clamp(0, n)
    ends = query.new_full((1,), n, dtype=torch.int32) if hi is None else hi.clamp(0, n)
    begins, ends = (t.to(torch.int32).expand(batch, m).contiguous() for t in (begins, ends))
    visible = None if mask is None else mask.expand(batch, m, n)
    if torch.is_grad_enabled() and (query.requires_grad or keys.requires_grad or values.requires_grad):
        run: Callable[..., Tensor] = _Sparse.apply
        return run(query, keys, values, begins, ends, visible, HALF[alpha])
    forward = _forward if is_plain(query, keys, values) else forward_operator
    context: Tensor = forward(query, keys, values, begins, ends, visible, HALF[alpha], 0)[0]
    return context


class _Sparse(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, keys: Tensor, values: Tensor, lo: Tensor, hi: Tensor, mask: Tensor | None,
        half: float,
    ) -> Tensor:  # fmt: skip
        room = min(keys.shape[1], max(ROOM, LEAST // query.shape[1]))
        run = _forward if is_plain(query, keys, values) else forward_operator
        context, *supports = run(query, keys, values, lo, hi, mask, half, room)
        ctx.save_for_backward(query, keys, values, lo, hi, mask, *supports)
        ctx.half = half
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, keys, values, lo, hi, mask, *supports = ctx.saved_tensors
        if not torch.is_grad_enabled():
            run = _backward if is_plain(gradient, query, keys, values) else backward_operator
            found = run(gradient, query, keys, values, lo, hi, mask, ctx.half, *supports)
            return *found, None, None, None, None
        inputs = query, keys, values = [
            t.view_as(t) for t in (query, keys, values)
        ]  # apart, even if one tensor
        context = _steps(query, keys, values, lo, hi, mask, ctx.half)
        needed = ctx.needs_input_grad[:3]
        wanted = [t for t, need in zip(inputs, needed, strict=True) if need]
        answers = iter(torch.autograd.grad(context, wanted, gradient, create_graph=True))
        return *(next(answers) if need else None for need in needed), None, None, None, None


def _steps(
    query: Tensor, keys: Tensor, values: Tensor, lo: Tensor, hi: Tensor, mask: Tensor | None, half: float
) -> Tensor:
    """The plain three steps, for second derivatives."""
    j = torch.arange(keys.shape[1])
    visible = (j >= lo.unsqueeze(-1)) & (j < hi.unsqueeze(-1))  # (B, m, n)
    if mask is not None:
        visible = visible & mask
    theta = (query @ keys.mT).masked_fill(~visible, float("-inf"))
    return MAPS[half](theta) @ values


def _forward(
    query: Tensor, keys: Tensor, values: Tensor, lo: Tensor, hi: Tensor, mask: Tensor | None, half: float,
    room: int,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Context (B, m, d_v), and for backward floors, begins, sizes (B, m), places, weights if room."""
    from regard.kernels.attention.sparse_forward import forward

    (batch, m, _), (_, n, width) = query.shape, values.shape
    query, keys, values = (_whole_vectors(t) for t in (query, keys, values))
    context, *kept = _empty(query, keys, values, lo, room)
    over_rows(
        forward, batch * -(-m // _group()), batch * m * n, np.zeros(1, np.int64),
        *_arrays(query, _panels(keys), values), _view(lo, hi, mask), half,
        *_arrays(context), room, _arrays(*kept), pieces=1,
    )  # fmt: skip
    return context[..., :width] if context.shape[-1] > width else context, *kept


def _empty(query: Tensor, keys: Tensor, values: Tensor, lo: Tensor, room: int) -> tuple[Tensor, ...]:
    """What `_forward` fills."""
    batch, m, _ = query.shape
    rows = (batch, m) if room else (0, 0)
    entries = batch * -(-m // _group()) * _group() * room  # pages never written cost nothing
    floors, begins, sizes = query.new_empty(rows), lo.new_empty(rows, dtype=torch.int64), lo.new_empty(rows)
    context = query.new_empty(batch, m, values.shape[-1])
    return context, floors, begins, sizes, lo.new_empty(entries), query.new_empty(entries)


def _backward(
    gradient: Tensor, query: Tensor, keys: Tensor, values: Tensor, lo: Tensor, hi: Tensor,
    mask: Tensor | None, half: float, *kept: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Gradients of query (B, m, d), keys (B, n, d) and values (B, n, d_v)."""
    from regard.kernels.attention.sparse_backward import backward
    from regard.kernels.attention.sparse_lists import AGAIN

    (batch, m, _), n, widths = query.shape, keys.shape[1], [t.shape[-1] for t in (query, keys, values)]
    gradient, query, keys, values = (_whole_vectors(t) for t in (gradient, query, keys, values))
    parts = max(1, min(PARTS // batch, m // 1024))  # whatever the number of threads: the same sums
    dq = torch.empty_like(query)
    dk, dv = (_zeros(parts, t) for t in (keys, values))
    again = bool((kept[2].numpy() == AGAIN).any())
    panels = _panels(keys if again else keys[:0])
    over_rows(
        backward, batch * parts, batch * m * min(n, 32) * 16, np.zeros(1, np.int64),
        *_arrays(query, keys, values, gradient, panels), _view(lo, hi, mask), half,
        _arrays(*kept), *_arrays(dq, dk, dv), pieces=1,
    )  # fmt: skip
    dk, dv = (t[0] if parts == 1 else t.sum(0) for t in (dk, dv))
    return tuple(t[..., :width] for t, width in zip((dq, dk, dv), widths, strict=True))


def _flops(query: torch.Size, keys: torch.Size, values: torch.Size, *_: Any, **__: Any) -> int:
    """QKᵀ, 8 for each score as every row map counts, pV."""
    return prod(query[:2]) * keys[1] * (2 * query[2] + 8 + 2 * values[2])


INPUTS = "Tensor query, Tensor keys, Tensor values, Tensor lo, Tensor hi, Tensor? mask, float half"
forward_operator: Callable[..., Any] = opaque(
    "sparse_attention",
    f"({INPUTS}, int room) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _forward,
    fake=lambda query, keys, values, lo, hi, mask, half, room: _empty(query, keys, values, lo, room),
    vmap=one_by_one(lambda *inputs: forward_operator(*inputs)),
    flops=_flops,
)
backward_operator: Callable[..., Any] = opaque(
    "sparse_attention_backward",
    f"(Tensor gradient, {INPUTS}, Tensor floors, Tensor begins, Tensor sizes, Tensor places, Tensor weights)"
    " -> (Tensor, Tensor, Tensor)",
    _backward,
    fake=lambda gradient, query, keys, values, *_: tuple(like(t) for t in (query, keys, values)),
    vmap=one_by_one(lambda *inputs: backward_operator(*inputs)),
    flops=lambda gradient, query, keys, values, *_, **__: (  # the four products of the plain steps
        4 * prod(query[:2]) * keys[1] * (query[2] + values[2])
    ),
)


def _group() -> int:
    from regard.kernels.attention.sparse_lists import GROUP

    return GROUP


def _panels(keys: Tensor) -> Tensor:
    """Keys (B, n, d) as the kernels read them: (B, ⌈n / w⌉, d, w), w keys side by side."""
    from regard.kernels.attention.sparse_tile import pack

    (batch, n, d), wide = keys.shape, 64 // keys.element_size()
    panels = keys.new_empty(batch, -(-n // wide), d, wide)
    over_rows(pack, batch * panels.shape[1], keys.numel(), *_arrays(keys, panels))
    return panels


def _whole_vectors(tensor: Tensor) -> Tensor:
    """The last axis filled up with zeros to a multiple of 32 bytes, contiguous: kernels read 32 at a time."""
    missing = -tensor.shape[-1] % (32 // tensor.element_size())
    return (F.pad(tensor, (0, missing)) if missing else tensor).contiguous()


def _zeros(parts: int, like: Tensor) -> Tensor:
    """Zeros (parts, *like.shape) as the system hands them out: torch would write them."""
    return torch.from_numpy(np.zeros((parts, *like.shape), like.detach().numpy().dtype))


def _view(lo: Tensor, hi: Tensor, mask: Tensor | None) -> tuple[Any, ...]:
    """lo and hi (B, m), the numbers behind a mask (B, m, n), maybe fewer, and the steps along its axes."""
    if mask is None:
        return *_arrays(lo, hi), np.empty(0, np.bool_), (0, 0, 0)
    last = sum((size - 1) * step for size, step in zip(mask.shape, mask.stride(), strict=True))
    return *_arrays(lo, hi, mask.as_strided((last + 1,), (1,))), mask.stride()


def _arrays(*tensors: Tensor) -> tuple[NDArray[Any], ...]:
    return tuple(t.detach().numpy() for t in tensors)
