"""MAPS: every map by name, and what is true of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from torch import Tensor

from regard.core.registry import Table, first_line

F = TypeVar("F", bound=Callable[..., Tensor])


@dataclass(frozen=True)
class Map:
    """A map and its facts; call it with scores (..., n) to get weights (..., n)."""

    name: str
    function: Callable[..., Tensor]
    says: str  # one sentence
    acts_on: Literal["row", "matrix"] = "row"
    simplex: bool = True  # weights are at least 0 and sum to 1
    sparse: bool = False  # weights can be exactly 0 where the score is finite
    ordered: bool = True  # a higher score never has the lower weight
    stochastic: bool = False  # draws random numbers
    differentiable: bool = True  # the gradient is not 0 everywhere
    neighbours: bool = False  # the order of the keys matters

    def __call__(self, scores: Tensor, **settings: Any) -> Tensor:
        return self.function(scores, **settings)


MAPS: Table[Map] = Table("map", {})


def register(**facts: Any) -> Callable[[F], F]:
    """Enter a map function into MAPS under its own name, with its facts: @register(sparse=True)."""

    def enter(function: F) -> F:
        entry = Map(function.__name__, function, first_line(function), **facts)
        MAPS.enter(entry.name, entry)
        function.facts = entry  # type: ignore[attr-defined]
        return function

    return enter


def facts_of(map: Callable[..., Tensor]) -> Map | None:
    """The entry of a map: of a function, a partial of it, a module that names its own. None of a stranger."""
    while isinstance(map, partial):
        map = map.func
    found = map if isinstance(map, Map) else getattr(map, "facts", None)
    return found if isinstance(found, Map) else None
