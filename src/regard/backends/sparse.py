"""The sparse backend: sparsemax and 1.5-entmax of dot products through the kernels of sparse attention.

What is added to the products (a bias, one by distance), a cap, a sink and dropout on the weights are part of
the kernels; keys that several heads share are not copied.
"""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.backends.call import Call
from regard.core.shapes import widened
from regard.kernels.attention.sparse_attention import sparse_attention
from regard.masks.mask import Given
from regard.scores.scaled_dot import ScaledDot
from regard.scores.score import Products, Score

ALPHAS = {"sparsemax": 2.0, "entmax15": 1.5}  # the maps it takes, and their α
WORTH = 1 << 14  # pairs below which the bookkeeping costs more than it saves
MASK = 1 << 26  # booleans that a mask may be written out to, where its rows are not intervals


def takes(call: Call) -> bool:
    """Whether it is one of these maps, the score may be dot products, and the call is large, on the CPU."""
    return (
        call.name in ALPHAS
        and call.value_term is None
        and isinstance(call.score, Score)
        and call.query.device.type == "cpu"
        and _large(call.m * call.n)
    )


def _large(pairs: int) -> bool:
    """Whether it is worth it; of a size that only a run of what is exported will know, yes."""
    if torch.compiler.is_exporting():
        from torch.fx.experimental.symbolic_shapes import statically_known_true

        return not statically_known_true(pairs < WORTH)
    return pairs >= WORTH


def sparse(call: Call) -> Tensor | None:
    """Context (..., m, d_v); None if the scores are no dot products."""
    ends = None
    if call.mask is not None:
        ends = call.mask.interval(call.m, call.n, len(call.batch), call.query.device)
        step = call.m if ends is not None else _rows_at_once(call)
        if step < call.m:
            return _by_blocks(call, step)
    products = _products(call)
    if products is None:
        return None
    lo, hi = ends or (None, None)
    distance = products.distance
    return sparse_attention(
        products.query,
        products.keys,
        widened(call.values),
        alpha=ALPHAS[call.name],
        lo=lo,
        hi=hi,
        mask=call.visible(0, call.m) if ends is None else None,
        bias=products.bias,
        table=None if distance is None else distance.table,
        first=0 if distance is None else distance.first,
        sink=call.sink,
        cap=products.cap,
        rate=call.dropout,
    )


def _products(call: Call) -> Products | None:
    """The scores as products; where queries are more than keys, it is the keys that are scaled."""
    score = call.score
    if (
        type(score) is ScaledDot
        and call.factor == 1.0
        and not torch.compiler.is_compiling()  # which may not know the sizes
        and call.keys.numel() < call.query.numel()
    ):
        keys, query = score.factors(widened(call.keys), widened(call.query))  # the first one is scaled
        return Products(query, keys)
    return call.products()


def _rows_at_once(call: Call) -> int:
    """How many rows of the mask may be written out at once."""
    if isinstance(call.mask, Given) or torch.compiler.is_compiling():
        return call.m  # it is there already; of what is compiled, sizes may not be known
    row = call.visible(0, min(1, call.m))
    return max(1, MASK // max(1, 0 if row is None else row.numel()))


def _by_blocks(call: Call, step: int) -> Tensor | None:
    """The same, some rows at a time, whose mask is written again in backward."""
    parts = []
    for start in range(0, call.m, step):
        block = call.rows(start, min(start + step, call.m))
        part = checkpoint(sparse, block, use_reentrant=False) if call.tracked else sparse(block)
        if part is None:
            return None
        parts.append(part)
    return torch.cat(parts, -2)
