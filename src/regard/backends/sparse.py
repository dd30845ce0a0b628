"""The sparse backend: sparsemax and 1.5-entmax of dot products through the kernels of sparse attention."""

import torch
from torch import Tensor

from regard.backends.call import Call
from regard.core.shapes import widened
from regard.kernels.attention.sparse_attention import sparse_attention
from regard.scores.score import Factored

ALPHAS = {"sparsemax": 2.0, "entmax15": 1.5}  # the maps it takes, and their α
WORTH = 1 << 14  # pairs below which the bookkeeping costs more than it saves


def takes(call: Call) -> bool:
    """Whether the call is one of these maps of dot products, on the CPU and large enough."""
    return (
        call.name in ALPHAS
        and isinstance(call.score, Factored)
        and not call.dropout
        and call.sink is None
        and call.query.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and call.m * call.n >= WORTH
    )


def sparse(call: Call) -> Tensor:
    """Context (..., m, d_v)."""
    query, keys = call.factors()
    values = widened(call.values)
    batch, m, n = call.batch, call.m, call.n
    query, keys, values = (
        t.expand(*batch, *t.shape[-2:]).reshape(-1, *t.shape[-2:]) for t in (query, keys, values)
    )
    lo = hi = visible = None
    if call.mask is not None:
        ends = call.mask.interval(m, n, len(batch), query.device)
        if ends is not None:
            lo, hi = (end.expand(*batch, m).reshape(-1, m) for end in ends)
        else:
            visible = call.visible(0, m)
            assert visible is not None
            visible = visible.expand(*batch, *visible.shape[-2:]).reshape(-1, *visible.shape[-2:])
    context = sparse_attention(query, keys, values, alpha=ALPHAS[call.name], lo=lo, hi=hi, mask=visible)
    return context.reshape(*batch, m, values.shape[-1])
