"""Attention: the weights themselves, the explanation that the debate is about.

    score of token j = the mean over heads (and, unless one is asked for, over the places that look) of α_ij

Of a classifier these are the weights of the attention that reads the words; `layer` asks for another.
"""

from typing import Any

import torch
from torch import Tensor

from regard.explanations.looked import attentive, stack
from regard.explanations.subject import Second, subject
from regard.explanations.table import register
from regard.recording import record
from regard.models.classifiers import ClassifierModel


@register(needs="weights")
def attention(
    model: Any,
    inputs: Any = None,
    lengths: Any = None,
    *,
    layer: int | None = None,
    position: int | None = None,
    second: Second | None = None,
) -> Tensor:
    """Weights over tokens (b, n), of a model with inputs or of bare weights."""
    if layer is None and position is None and isinstance(model, ClassifierModel):
        asked, found = subject(model, inputs, lengths, second), attentive(model, "attention")
        with asked.quiet(), torch.no_grad(), record(model, found) as seen:
            asked.outputs()
            weights: Tensor = model.over_words(seen)
            return weights.mean(-2)
    layers = stack(model, inputs, lengths, "attention", second).at(layer)
    return layers.over_tokens(layers.layers[0].weights.mean(1), position)
