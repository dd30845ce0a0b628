"""Rollout: what each position of the top layer got from each token, if layers only mixed positions.

    A_l = (W_l + I) / (the sums of its rows)        R = A_L ⋯ A_2 A_1

W_l is the mean over heads, I the residual connection. For maps whose weights sum to 1, A_l = ½W_l + ½I. R_ij
sums over all paths from position i at the top to token j the product of the weights along the path. Rows of R
sum to 1, whatever the map. Of a decoder it is divided by the rollout of uniform attention: see
`layer_stack.explained`; `causal=False` leaves that out.

Abnar & Zuidema (2020), "Quantifying Attention Flow in Transformers", arXiv:2005.00928, §3; that decoders need
a correction: §5.
"""

from typing import Any

from torch import Tensor

from regard.explanations.layer_stack import Position, Stack, explained, stack
from regard.explanations.methods import register
from regard.models.subject import Second


@register(needs="weights")
def rollout(
    model: Any, inputs: Any = None, lengths: Any = None, *,
    position: Position = None, causal: bool | None = None, second: Second | None = None,
) -> Tensor:  # fmt: skip
    """Rollout to tokens (b, n), or (b, m, n) with position="all", of a model or of bare weights."""
    return explained(stack(model, inputs, lengths, "rollout", second, causal=causal), rolled, position)


def rolled(layers: Stack) -> Tensor:
    """R (b, m, n) of all layers."""
    first, *others = (layer.mixed(layers.lengths) for layer in layers.layers)
    for above in others:
        first = above @ first
    return first
