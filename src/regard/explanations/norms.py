"""Norms: the length of the vector that a token adds to the output, not only its weight.

    score of token j = ‖Σ_h α⁽ʰ⁾_ij f⁽ʰ⁾(x_j)‖        f⁽ʰ⁾(x) = (x W_V⁽ʰ⁾ + b_V⁽ʰ⁾) W_O⁽ʰ⁾

A token can have a large weight and add next to nothing, because its transformed vector is short: [SEP] and
[CLS] do, in BERT. Without an output projection f(x) is the value.

Kobayashi et al. (2020), "Attention is Not Only a Weight: Analyzing Transformers with Vector Norms",
arXiv:2004.10102, §3.
"""

from typing import Any

import torch
from torch import Tensor

from regard.explanations.layer_stack import Position, stack
from regard.explanations.methods import register
from regard.models.subject import Second


@register(needs="values")
def norms(
    model: Any, inputs: Any = None, lengths: Any = None, *,
    layer: int | None = None, position: Position = None, causal: bool | None = None,
    second: Second | None = None,
) -> Tensor:  # fmt: skip
    """Lengths of what tokens add (b, n) in a layer of a model; default: the one that reads the words."""
    layers = stack(model, inputs, lengths, "norms", second, causal=causal, values=True).at(layer)
    (one,) = layers.layers
    assert one.transformed is not None
    return layers.over_tokens(contributions(one.weights, one.transformed), position)


def contributions(weights: Tensor, transformed: Tensor) -> Tensor:
    """‖Σ_h α f‖ (b, m, n) of weights (b, h, m, n) and transformed vectors (b, h, n, d).

    By ‖Σ_h α_h f_h‖² = Σ_gh α_g α_h f_g·f_h, without a tensor of m × n × d.
    """
    dots = torch.einsum("bgnd,bhnd->bghn", transformed, transformed)
    squares = (torch.einsum("bgmn,bghn->bhmn", weights, dots) * weights).sum(1)
    return squares.clamp(min=0).sqrt()
