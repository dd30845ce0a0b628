"""A case of functions: any model whatever, as far as it can be asked.

    predict(texts)               probabilities (r, classes)
    attention(texts)             weights (b, n), or (b, k, n) of k queries or heads; or a list, n for each
    intervene(texts, weights)    probabilities with these weights: a tensor of the shape that attention(texts)
                                 has, 0 beyond the end of a text

Texts are lists of tokens, whatever these are. Whether `intervene` is differentiable is tried once. What a
function raises is not caught here.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.tasks.case import Case, NotApplicable, Texts, WithWeights


def case_of_functions(
    predict: Callable[[Any], Any],
    attention: Callable[[Any], Any],
    inputs: Texts,
    intervene: Callable[[Any, Tensor], Any] | None,
    **more: Any,
) -> Case:
    """The case of functions and texts."""
    for name, function in (("predict", predict), ("attention", attention)):
        if not callable(function):
            raise TypeError(f"{name} must be a function of texts; got {type(function).__name__}.")
    if isinstance(inputs, str) or any(isinstance(text, str) for text in inputs):
        raise TypeError("inputs must be lists of tokens, [text.split() for text in texts]; got a string.")
    texts = [list(text) for text in inputs]
    if not all(texts):
        raise ValueError(f"input {texts.index([])} has no token: there is nothing to attend to.")

    def attend(texts: Texts, rows: Tensor) -> tuple[Tensor, WithWeights | None]:
        weights, flat = _weights(attention(list(texts)), texts)
        if intervene is None:
            return weights, None
        return weights, lambda other: intervene(list(texts), other.squeeze(-2) if flat else other)

    return Case(
        texts,
        lambda texts, rows: predict(list(texts)),
        attend,
        differentiable=intervene is not None and _differentiable(attend, texts[:1]),
        **more,
    )


def _weights(given: Any, texts: Texts) -> tuple[Tensor, bool]:
    """Weights (b, k, n), and whether they came without k."""
    try:
        if isinstance(given, Sequence):
            rows = [torch.as_tensor(row).double() for row in given]
            wrong = [
                i
                for i, (row, text) in enumerate(zip(rows, texts, strict=True))
                if row.shape[-1:] != (len(text),)
            ]
            if wrong:
                raise NotApplicable(
                    f"attention must have a weight for each token: a text has {len(texts[wrong[0]])}, "
                    f"its weights are {tuple(rows[wrong[0]].shape)}"
                )
            n = max(len(text) for text in texts)
            given = torch.stack([torch.nn.functional.pad(row, (0, n - row.shape[-1])) for row in rows])
        weights = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise NotApplicable(f"attention returned what is no table of weights ({error})") from None
    return (weights.unsqueeze(-2), True) if weights.dim() == 2 else (weights, False)


def _differentiable(
    attend: Callable[[Texts, Tensor], tuple[Tensor, WithWeights | None]], texts: Texts
) -> bool:
    """Whether probabilities have a gradient in the weights, tried with one text."""
    try:
        weights, with_weights = attend(texts, torch.zeros(1, dtype=torch.long))
    except NotApplicable:  # the audit reports it
        return False
    assert with_weights is not None
    with_weights(weights.double())
    try:
        found = with_weights(weights.detach().double().requires_grad_())
    except RuntimeError:  # it works on these weights, but not if they need a gradient: .numpy(), say
        return False
    return isinstance(found, Tensor) and found.requires_grad
