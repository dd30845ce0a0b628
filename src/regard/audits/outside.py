"""A case of functions: any model whatever, as far as it can be asked.

    predict(texts)               probabilities (r, classes)
    attention(texts)             weights (b, n), or (b, k, n) of k queries or heads; or a list, n for each
    intervene(texts, weights)    probabilities, if the weights were these: a tensor of the shape that
                                 attention(texts) has, 0 beyond the end of a text

Texts are lists of tokens, whatever these are. Whether `intervene` can be differentiated is found out.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.audits.case import Again, Case, Texts
from regard.audits.finding import NotApplicable

Predict = Callable[[Any], Any]
Intervene = Callable[[Any, Tensor], Any]


def of_functions(
    predict: Predict,
    attention: Predict,
    inputs: Texts,
    *,
    intervene: Intervene | None = None,
    **more: Any,
) -> Case:
    """The case of functions and texts."""
    for name, function in (("predict", predict), ("attention", attention)):
        if not callable(function):
            raise TypeError(f"{name} must be a function of texts; got {type(function).__name__}.")
    texts = [list(text) for text in inputs]
    if not all(texts):
        raise ValueError(f"input {texts.index([])} has no token: there is nothing to look at.")

    def look(texts: Texts, rows: Tensor) -> tuple[Tensor, Again | None]:
        weights, flat = _weights(attention(list(texts)), texts)
        if intervene is None:
            return weights, None

        def again(other: Tensor) -> Tensor:
            found: Tensor = torch.as_tensor(intervene(list(texts), other.squeeze(-2) if flat else other))
            return found

        return weights, again

    def ask(texts: Texts, rows: Tensor) -> Tensor:
        return predict(list(texts))  # type: ignore[no-any-return]

    return Case(
        texts,
        ask,
        look,
        differentiable=intervene is not None and _differentiable(look, texts),
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


def _differentiable(look: Callable[[Texts, Tensor], tuple[Tensor, Again | None]], texts: Texts) -> bool:
    """Whether what is said has a gradient in the weights, tried with one text."""
    try:
        weights, again = look(texts[:1], torch.zeros(1, dtype=torch.long))
        return again is not None and bool(again(weights.detach().double().requires_grad_()).requires_grad)
    except Exception:  # whatever is wrong with these functions, the tests will say it
        return False
