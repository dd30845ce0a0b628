"""The plain backend: the three steps as written, against which every other backend is tested.

θ = score(q, K)        p = map(θ)        z = p V
"""

from torch import Tensor

from regard.backends.call import Call
from regard.backends.groups import merged_place, split
from regard.core.errors import ShapeError
from regard.core.recorders import marked
from regard.core.shapes import widened
from regard.kernels.attention.dropout_operator import dropout
from regard.scores.score import matmul


def plain(call: Call) -> tuple[Tensor, Tensor]:
    """Context (..., m, d_v) and weights (..., m, n), these after any intervention and before dropout.

    With groups the context is (..., kv, g, m, d_v), and the weights are (..., heads, m, n).
    """
    visible = call.visible(0, call.m)
    weights = call.weights(call.scores(visible), visible)
    if call.change is not None:
        changed = call.change(weights)
        if not isinstance(changed, Tensor) or changed.shape != weights.shape:
            came = tuple(changed.shape) if isinstance(changed, Tensor) else type(changed).__name__
            raise ShapeError(
                f"an intervention must return weights of shape {tuple(weights.shape)}; got {came}."
            )
        weights = changed.to(weights.dtype)
    spent = dropout(weights, call.dropout) if call.dropout else weights
    split_up = spent if call.groups == 1 else split(spent, call.groups)
    context = matmul(split_up, widened(call.values))
    if call.value_term is not None:
        place = call.where() if call.groups == 1 else merged_place(call.where(), call.heads)
        more = call.value_term(spent, place)
        context = context + (more if call.groups == 1 else split(more, call.groups))
    return context if call.change is None else marked(context, call.change), weights
