"""METHODS: every explanation by name, and what is true of it."""

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
    needs: Literal["weights", "values", "gradients", "outputs"]  # what a model must show
    signed: bool = False  # a score below 0 speaks against what is explained

    def __call__(self, model: Any, inputs: Any = None, lengths: Any = None, **options: Any) -> Tensor:
        return self.function(model, inputs, lengths, **options)


METHODS: Table[Method] = Table("method", {})


def register(**facts: Any) -> Callable[[F], F]:
    """Enter a function into METHODS under its own name, with its facts: @register(needs="weights")."""

    def enter(function: F) -> F:
        METHODS.enter(function.__name__, Method(function.__name__, function, first_line(function), **facts))
        return function

    return enter
