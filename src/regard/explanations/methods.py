"""METHODS: every explanation by name, and its facts; `explain` calls one by its name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from torch import Tensor

from regard.core.registry import Table, first_line

F = TypeVar("F", bound=Callable[..., Tensor])


@dataclass(frozen=True)
class Method:
    """An explanation and its facts; call it with model, inputs and lengths to get scores (b, n)."""

    name: str
    function: Callable[..., Tensor]
    says: str  # one sentence
    needs: Literal["weights", "values", "gradients", "outputs"]  # of the model
    signed: bool = False  # a score below 0 is evidence against what is explained

    def __call__(self, model: Any, inputs: Any = None, lengths: Any = None, **options: Any) -> Tensor:
        return self.function(model, inputs, lengths, **options)


METHODS: Table[Method] = Table("method", {})


def register(**facts: Any) -> Callable[[F], F]:
    """Enter a function into METHODS under its own name, with its facts: @register(needs="weights")."""

    def enter(function: F) -> F:
        METHODS.enter(function.__name__, Method(function.__name__, function, first_line(function), **facts))
        return function

    return enter


def explain(
    model: Any, inputs: Any = None, lengths: Any = None, *, method: str = "attention", **options: Any
) -> Any:
    """A score for each token (b, n), by a method of METHODS; 0 for padding.

    model is a classifier, a function of inputs (and lengths) that returns (b, classes), or bare weights: a
    tensor (b, h, m, n) for each layer. inputs are tokens (b, n), or vectors (b, n, d).

    explain(model, tokenizer, text) is for models of transformers, and returns an `Explanation` of words:
    target is a class, or what a language model may say next, against what else it might say.
    """
    if isinstance(lengths, str):
        from regard.explanations.explained_texts import explain_with_tokenizer

        return explain_with_tokenizer(model, inputs, lengths, method=method, **options)
    return METHODS[method](model, inputs, lengths, **options)
