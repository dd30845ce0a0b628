"""Gradient × input: how much of the output a word accounts for, were the model linear.

    score of token j = ∂y/∂x_j · x_j

It has a sign. The product with the word's vector is also the derivative with respect to the word's entry in a
one-hot vector, so its absolute value is the gradient importance of Jain & Wallace (2019), arXiv:1902.10186,
§4.1 (one lecture leaves the absolute value out), who hold attention fixed: hold_attention=True.

Of a linear model it is exactly what leave_one_out(by="zero") finds. Kindermans et al. (2016), "Investigating
the influence of noise and distractors on the interpretation of neural networks", arXiv:1611.07270.
"""

from typing import Any

from torch import Tensor

from regard.explanations.methods import register
from regard.models.subject import Second, Target, slopes, subject


@register(needs="gradients", signed=True)
def gradient_x_input(
    model: Any, inputs: Any, lengths: Any = None, *,
    target: Target = None, hold_attention: bool = False, second: Second | None = None,
) -> Tensor:  # fmt: skip
    """Gradient times input at each token (b, n), for the target class; default: the predicted one."""
    vectors, slope = slopes(subject(model, inputs, lengths, second), target, hold_attention)
    return (vectors * slope).sum(-1)
