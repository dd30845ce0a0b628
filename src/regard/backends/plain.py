"""The plain backend: the three steps as written, against which every other backend is tested.

θ = score(q, K)        p = map(θ)        z = p V
"""

import torch
from torch import Tensor

from regard.backends.call import Call
from regard.core.errors import ShapeError
from regard.core.recorders import marked
from regard.core.shapes import widened
from regard.kernels.attention.dropout_operator import dropout


def plain(call: Call) -> tuple[Tensor, Tensor]:
    """Context (..., m, d_v) and weights (..., m, n), these after any intervention and before dropout."""
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
    context = torch.matmul(spent, widened(call.values))
    return context if call.change is None else marked(context, call.change), weights
