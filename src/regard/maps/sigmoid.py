"""Sigmoid: each key on its own, without competition.

    π(θ)ⱼ = 1 / (1 + exp(−θⱼ))

Not in the simplex: the weights of a row sum to anything between 0 and n. Since no key knows of the others,
a NaN stays where it is and +inf has weight 1.
"""

from typing import Never

import torch
from torch import Tensor

from regard.core.foreign_names import refuse
from regard.core.shapes import check, check_float
from regard.maps.table import register


@register(simplex=False, guard=False)
def sigmoid(scores: Tensor, **other: Never) -> Tensor:
    """Map scores (..., n) to weights (..., n), each between 0 and 1."""
    if other:
        refuse("sigmoid", other)
    check_float("scores", scores)
    check("scores", scores, "... n")
    return torch.sigmoid(scores)
