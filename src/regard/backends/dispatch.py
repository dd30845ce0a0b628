"""Dispatch: each call runs on the fastest backend that gives the plain answer."""

import torch
from torch import Tensor

from regard.backends import flash
from regard.backends.blocks import blocks, size
from regard.backends.call import Call
from regard.backends.plain import plain
from regard.core.shapes import widened
from regard.scores.score import Factored

LARGE = 1 << 22  # numbers of size m × n, above which memory counts
SPARSE = {"sparsemax": 2.0, "entmax15": 1.5}  # maps with a sparse backend, and their α
WORTH = 1 << 14  # pairs below which the sparse backend's bookkeeping costs more than it saves


def dispatch(call: Call) -> tuple[Tensor, Tensor | None]:
    """Context (..., m, d_v), and the weights (..., m, n) where they have to be kept or came anyway."""
    facts = call.facts
    if call.change is not None or facts is None or facts.acts_on == "matrix" or facts.stochastic:
        return plain(call)
    if transformed():
        return plain(call)[0], None
    if flash.takes(call):
        return flash.flash(call), None
    context = sparse_backend(call)
    if context is not None:
        return context, None
    return (blocks(call) if size(call) > LARGE else plain(call)[0]), None


def transformed() -> bool:
    """Whether a torch.func transform (vmap, jacrev, …) is under way."""
    return not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None


def sparse_backend(call: Call) -> Tensor | None:
    """The context on the sparse backend, or None where that backend does not apply."""
    alpha = SPARSE.get(call.name)
    if (
        alpha is None
        or not isinstance(call.score, Factored)
        or call.dropout
        or call.query.device.type != "cpu"
        or torch.compiler.is_compiling()
        or call.m * call.n < WORTH
    ):
        return None
    from regard.backends.sparse import sparse  # brings in Numba

    query, keys = call.score.factors(widened(call.query), widened(call.keys))
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
    context = sparse(query, keys, values, alpha=alpha, lo=lo, hi=hi, mask=visible)
    return context.reshape(*batch, m, values.shape[-1])
