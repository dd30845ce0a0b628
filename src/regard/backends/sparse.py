"""The sparse backend: sparsemax and 1.5-entmax of dot products through the kernels of sparse attention.

What is added to the products (a bias, one by distance), a cap, a sink and dropout on the weights are part of
the kernels; keys that several heads share are not copied.
"""

import torch
from torch import Tensor

from regard.backends.call import Call
from regard.core.shapes import widened
from regard.kernels.attention.sparse_attention import sparse_attention
from regard.scores.score import Score

ALPHAS = {"sparsemax": 2.0, "entmax15": 1.5}  # the maps it takes, and their α
WORTH = 1 << 14  # pairs below which the bookkeeping costs more than it saves


def takes(call: Call) -> bool:
    """Whether it is one of these maps, the score may be dot products, and the call is large, on the CPU."""
    return (
        call.name in ALPHAS
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
    products = call.products()
    if products is None:
        return None
    batch, m, n = call.batch, call.m, call.n
    lo = hi = visible = None
    if call.mask is not None:
        ends = call.mask.interval(m, n, len(batch), call.query.device)
        if ends is not None:
            lo, hi = ends
        else:
            visible = call.visible(0, m)
    distance = products.distance
    return sparse_attention(
        products.query,
        products.keys,
        widened(call.values),
        alpha=ALPHAS[call.name],
        lo=lo,
        hi=hi,
        mask=visible,
        bias=products.bias,
        table=None if distance is None else distance.table,
        first=0 if distance is None else distance.first,
        sink=call.sink,
        cap=products.cap,
        rate=call.dropout,
    )
