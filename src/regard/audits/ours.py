"""A case of a model of this project, with texts given as tokens."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.audits.case import Again, Case, Texts
from regard.explanations.gradient import slopes
from regard.explanations.subject import subject
from regard.recording import record
from regard.models.classifiers import ClassifierModel as Model
from regard.runs.classifier import together


def of_model(
    model: Model,
    texts: Sequence[Sequence[int]],
    seconds: Sequence[Sequence[int]] | None = None,
    **more: Any,
) -> Case:
    """The case of a model and texts, given as tokens; of a model for pairs, with the texts that ask."""

    def given(texts: Texts, rows: Tensor) -> tuple[Tensor, ...]:
        second = () if seconds is None else together([seconds[i] for i in rows.tolist()], model)
        return (*together(texts, model), *second)

    def ask(texts: Texts, rows: Tensor) -> Tensor:
        with quiet(model), torch.no_grad():
            found: Tensor = model(*given(texts, rows)).double().softmax(-1)
            return found

    def look(texts: Texts, rows: Tensor) -> tuple[Tensor, Again]:
        tensors = given(texts, rows)
        with quiet(model), torch.no_grad():
            knows, answer = model.condition(*tensors), model.prepared(*tensors)
            with record(model, model.attention_paths["reader"]) as seen:
                answer()

        def again(weights: Tensor) -> Tensor:
            with quiet(model), model.looking_with(weights, knows):
                found: Tensor = answer().double().softmax(-1)
                return found

        return model.over_words(seen), again

    def slopes_at(texts: Texts, rows: Tensor) -> tuple[Tensor, Tensor]:
        tokens, lengths, *second = given(texts, rows)
        pair = (second[0], second[1]) if second else None
        vectors, slope = slopes(subject(model, tokens, lengths, pair), None, hold_attention=True)
        return vectors.cpu(), slope.cpu()

    def gradients(texts: Texts, rows: Tensor) -> Tensor:
        vectors, slope = slopes_at(texts, rows)
        return (vectors * slope).sum(-1).abs()

    def states(texts: Texts, rows: Tensor) -> tuple[Tensor, Tensor]:
        tensors = given(texts, rows)
        with quiet(model), torch.no_grad():
            vectors, knows = model.embed(tensors[0]), model.condition(*tensors)
            extra = () if knows is None or seconds is not None else (knows,)
            return model.states(vectors, tensors[1], *extra).cpu(), vectors.cpu()  # type: ignore[operator]

    return Case(
        texts,
        ask,
        look,
        gradients=gradients,
        slopes=slopes_at,
        states=states if hasattr(model, "states") else None,
        differentiable=True,
        **more,
    )


def quiet(model: Model) -> Any:
    """Without dropout; afterwards every part of the model is as it was."""
    return subject(model, torch.zeros(1, 1, dtype=torch.long)).quiet()
