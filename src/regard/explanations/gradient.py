"""Gradient: how steeply what the model says changes with the vector of each word.

    score of token j = ‖∂y/∂x_j‖₂

With hold_attention weights are taken for constants: what is left is the change through what is looked at,
not through where is looked. So Jain & Wallace (2019), arXiv:1902.10186, §4.1, do it.

Simonyan, Vedaldi & Zisserman (2014), "Deep Inside Convolutional Networks", arXiv:1312.6034, §3; for text: Li
et al. (2016), "Visualizing and Understanding Neural Models in NLP", arXiv:1506.01066.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from regard.explanations.looked import attentive
from regard.explanations.subject import Second, Subject, Target, subject
from regard.explanations.table import register
from regard.recording import intervene


@register(needs="gradients")
def gradient(
    model: Any,
    inputs: Any,
    lengths: Any = None,
    *,
    target: Target = None,
    hold_attention: bool = False,
    second: Second | None = None,
) -> Tensor:
    """Length of the gradient at each token (b, n), for the target class; default: the one the model says."""
    asked = subject(model, inputs, lengths, second)
    found: Tensor = slopes(asked, target, hold_attention)[1].norm(dim=-1)
    return found


def slopes(asked: Subject, target: Target, hold_attention: bool = False) -> tuple[Tensor, Tensor]:
    """The vectors of the words and ∂y/∂x, both (b, n, d); 0 at padding."""
    classes, vectors = asked.target(target), asked.vectors().requires_grad_()
    with asked.quiet(), held(asked) if hold_attention else nullcontext(), torch.enable_grad():
        y = asked.value(asked.outputs(vectors), classes)
        if not y.requires_grad:
            raise ValueError(
                "what the model returns has no gradient with respect to its inputs; use leave_one_out."
            )
        (slope,) = torch.autograd.grad(y.sum(), vectors, allow_unused=True)
    slope = torch.zeros_like(vectors) if slope is None else slope
    return vectors.detach(), torch.where(asked.real.unsqueeze(-1), slope, 0)


def held(asked: Subject) -> AbstractContextManager[None]:
    """The attentions of a model as constants."""
    return intervene(asked.model, Tensor.detach, attentive(asked.model, "hold_attention"))
