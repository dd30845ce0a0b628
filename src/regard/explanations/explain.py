"""One door to every method."""

from typing import Any

from torch import Tensor

from regard.explanations.methods import METHODS


def explain(
    model: Any, inputs: Any = None, lengths: Any = None, *, method: str = "attention", **options: Any
) -> Tensor:
    """A score for each token (b, n), by a method of METHODS; 0 for padding.

    model is a classifier, a function of inputs (and lengths) that returns (b, classes), or bare weights: a
    tensor (b, h, m, n) for each layer. inputs are tokens (b, n), or vectors (b, n, d).
    """
    return METHODS[method](model, inputs, lengths, **options)
