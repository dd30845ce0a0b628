"""Effective attention: the part of the weights that affects the output.

    A^⊥ = A P        P the projector onto the columns of T = (X W_V + b_V) W_O, so that A^⊥ T = A T

The rest lies in the left null space of T and has no effect. With no more tokens than the width of a head
there is no rest; with more, A^⊥ and A differ. It can be negative, and its rows need not sum to 1.

Brunner et al. (2020), "On Identifiability in Transformers", arXiv:1908.04211, §3.2.
"""

from typing import Any

from torch import Tensor

from regard.explanations.layer_stack import Position, stack
from regard.explanations.methods import register
from regard.explanations.null_space import column_projector
from regard.models.subject import Second


@register(needs="values", signed=True)
def effective_attention(
    model: Any, inputs: Any = None, lengths: Any = None, *,
    layer: int | None = None, position: Position = None, causal: bool | None = None,
    second: Second | None = None,
) -> Tensor:  # fmt: skip
    """Effective weights over tokens (b, n) in a layer of a model; default: the one that reads the words.

    The mean over heads, each projected by itself.
    """
    layers = stack(model, inputs, lengths, "effective_attention", second, causal=causal, values=True).at(
        layer
    )
    (one,) = layers.layers
    assert one.transformed is not None
    return layers.over_tokens(effective(one.weights, one.transformed).mean(1), position)


def effective(weights: Tensor, transformed: Tensor) -> Tensor:
    """A^⊥ (..., m, n) of weights (..., m, n) and transformed values (..., n, d)."""
    return weights @ column_projector(transformed).to(weights.dtype)
