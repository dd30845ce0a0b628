"""Sigmoid: each key on its own, without competition.

    π(θ)ⱼ = 1 / (1 + exp(−θⱼ))

Not in the simplex: the weights of a row sum to anything between 0 and n. Since no key knows of the others,
a NaN stays where it is and +inf has weight 1.
"""

from typing import Never

import torch
from torch import Tensor

from regard.core.shapes import check
from regard.maps.table import check_call, register


@register(simplex=False, guard=False)
def sigmoid(scores: Tensor, **other: Never) -> Tensor:
    """Map scores (..., n) to weights (..., n), each between 0 and 1."""
    check_call("sigmoid", scores, other)
    check("scores", scores, "... n")
    return torch.sigmoid(scores)
