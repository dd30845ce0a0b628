"""Gradient: how steeply the output changes with the vector of each word.

    score of token j = ‖∂y/∂x_j‖₂

With hold_attention the weights are constants: what is left is the change through the values, not through the
weights. So Jain & Wallace (2019), arXiv:1902.10186, §4.1, do it.

Simonyan, Vedaldi & Zisserman (2014), "Deep Inside Convolutional Networks", arXiv:1312.6034, §3; for text: Li
et al. (2016), "Visualizing and Understanding Neural Models in NLP", arXiv:1506.01066.
"""

from typing import Any

from torch import Tensor

from regard.explanations.methods import register
from regard.models.subject import Second, Target, slopes, subject


@register(needs="gradients")
def gradient(
    model: Any, inputs: Any, lengths: Any = None, *,
    target: Target = None, hold_attention: bool = False, second: Second | None = None,
) -> Tensor:  # fmt: skip
    """Length of the gradient at each token (b, n), for the target class; default: the predicted one."""
    asked = subject(model, inputs, lengths, second)
    found: Tensor = slopes(asked, target, hold_attention)[1].norm(dim=-1)
    return found
