"""Attention × gradient: the weight of a word times the gradient of the output with respect to that weight.

    score of token j = Σ_i α_ij ∂y/∂α_ij        over heads and queries i

To first order what the output would lose if the weight were 0. It has a sign. Of a model with several layers:
the weights that read the words (the last layer).

Serrano & Smith (2019), "Is Attention Interpretable?", arXiv:1906.03731, §4, rank words by it.
"""

from typing import Any

import torch
from torch import Tensor

from regard.core.recorders import attention_paths
from regard.explanations.methods import register
from regard.models.subject import Second, Target, eval_mode, explained_attentions, subject
from regard.recording import intervene


@register(needs="gradients", signed=True)
def attention_x_gradient(
    model: Any, inputs: Any, lengths: Any = None, *,
    target: Target = None, second: Second | None = None,
) -> Tensor:  # fmt: skip
    """Weight times gradient at each token (b, n), for the target class; default: the predicted one."""
    paths = explained_attentions(model, "attention_x_gradient")
    path = attention_paths(model).get("reader", paths[-1:])[0]
    asked = subject(model, inputs, lengths, second)
    classes, seen = asked.target(target), []

    def watch(weights: Tensor) -> Tensor:
        seen.append(weights if weights.requires_grad else weights.detach().requires_grad_())
        return seen[-1]

    with eval_mode(model), torch.enable_grad(), intervene(model, watch, path):
        y = asked.value(asked.outputs(), classes).sum()
    weights = seen[-1]  # (b, ..., m, n)
    slope = torch.autograd.grad(y, weights, allow_unused=True)[0] if y.requires_grad else None
    slope = torch.zeros_like(weights) if slope is None else slope
    scores = (weights * slope).detach().flatten(1, -2).sum(1)  # (b, n)
    scores = scores[:, scores.shape[-1] - asked.inputs.shape[1] :]  # without a position before the words
    return torch.where(asked.real, scores, 0)
