"""Attention: the weights themselves, the explanation that the debate is about.

    score of token j = the mean over heads (and over queries i, unless one is selected) of α_ij

Of a classifier these are the weights of the attention that reads the words; `layer` selects another.
"""

from typing import Any

import torch
from torch import Tensor

from regard.explanations.layer_stack import Position, stack
from regard.explanations.methods import register
from regard.models.classifiers import ClassifierModel
from regard.models.subject import Second, eval_mode, subject
from regard.recording import record


@register(needs="weights")
def attention(
    model: Any, inputs: Any = None, lengths: Any = None, *,
    layer: int | None = None, position: Position = None, causal: bool | None = None,
    second: Second | None = None,
) -> Tensor:  # fmt: skip
    """Weights over tokens (b, n), of a model with inputs or of bare weights."""
    if layer is None and position is None and isinstance(model, ClassifierModel):
        asked = subject(model, inputs, lengths, second)
        with eval_mode(model), torch.no_grad(), record(model, model.attention_paths["reader"]) as seen:
            asked.outputs()
            return model.over_words(seen).mean(-2)
    layers = stack(model, inputs, lengths, "attention", second, causal=causal).at(layer)
    return layers.over_tokens(layers.layers[0].weights.mean(1), position)
