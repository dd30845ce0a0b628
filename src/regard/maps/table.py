"""MAPS: every map by name, and what is true of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from math import isfinite
from typing import Any, Literal, TypeVar, cast

import torch
from torch import Tensor, nn

from regard.core.foreign_names import refuse
from regard.core.registry import Table, first_line
from regard.core.shapes import check, check_float, widened
from regard.kernels.common.operator import is_plain

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


def register(*, guard: bool = True, **facts: Any) -> Callable[[F], F]:
    """Enter a map function into MAPS under its own name, with its facts: @register(sparse=True).

    The function is guarded: it gets scores of float32 or float64, with at least one key that may be looked at
    in every row (every matrix, if it acts on matrices), and its weights are returned in the dtype of the
    scores. The guard refuses what is no floating-point tensor or has too few axes, returns nothing for no
    scores, weights and gradient 0 for a row of nothing but −inf, and NaN for a row with NaN or +inf. A
    function that does all this itself, as those on kernels do, says guard=False and is entered as it is.
    """

    def enter(function: F) -> F:
        entered = _guarded(function, facts.get("acts_on", "row")) if guard else _named(function)
        entry = Map(function.__name__, entered, first_line(function), **facts)
        MAPS.enter(entry.name, entry)
        entered.facts = entry  # type: ignore[attr-defined]
        return entered

    return enter


def check_call(name: str, scores: Tensor, other: Mapping[str, object]) -> None:
    """What a map that is not guarded refuses: settings that it does not have, scores that are no floats."""
    if other:
        refuse(name, other)
    check_float("scores", scores)


def _named(function: F) -> F:
    """The function; one that takes a fixed list of settings also refuses dim=, as all maps do."""
    if any(p.kind is p.VAR_KEYWORD for p in signature(function).parameters.values()):
        return function  # it refuses what it does not know

    @wraps(function)
    def named(*inputs: Any, **settings: Any) -> Tensor:
        if "dim" in settings:
            refuse(function.__name__, settings)
        found: Tensor = function(*inputs, **settings)
        return found

    return cast(F, named)


def _guarded(function: F, acts_on: str) -> F:
    axes, last = ("... m n", (-2, -1)) if acts_on == "matrix" else ("... n", (-1,))

    @wraps(function)
    def guarded(scores: Tensor, *settings: Any, **named: Any) -> Tensor:
        if "dim" in named:
            refuse(function.__name__, named)
        check_float("scores", scores)
        check("scores", scores, axes)
        if not scores.numel():
            return scores.clone()
        theta = widened(scores)
        top = theta.detach().amax(last, keepdim=True)  # (..., 1), or (..., 1, 1) of a matrix
        if is_plain(theta) and isfinite(top.sum().item()):  # the common case, which costs no more than this
            return function(theta, *settings, **named).to(scores.dtype)
        empty = top == -torch.inf
        flaw = torch.where(empty, 0, top - top)  # 0, or NaN
        weights = function(torch.where(empty, 0, theta), *settings, **named)
        return (torch.where(empty, 0, weights) + flaw).to(scores.dtype)

    return cast(F, guarded)


def facts_of(map: Callable[..., Tensor]) -> Map | None:
    """The entry of a map: a function, a partial, a module with `facts`. None if it is not registered."""
    while isinstance(map, partial):
        map = map.func
    found = map if isinstance(map, Map) else getattr(map, "facts", None)
    return found if isinstance(found, Map) else None


def acts_on_matrix(map: Callable[..., Tensor]) -> bool:
    """Whether a map needs all rows of scores (m, n) at once."""
    found = facts_of(map)
    return (found.acts_on if found is not None else getattr(map, "acts_on", "row")) == "matrix"


def each_row_alone(map: Callable[..., Tensor]) -> bool:
    """Whether the weights of a row are made of its scores alone, in any order and of whichever head.

    Not so: maps with neighbours, maps that draw random numbers, and those with a parameter for each head.
    """
    found = facts_of(map)
    if acts_on_matrix(map) or (found is not None and (found.neighbours or found.stochastic)):
        return False
    inner: Any = map
    while isinstance(inner, partial):
        if any(
            isinstance(value, Tensor) and value.numel() > 1
            for value in (*inner.args, *inner.keywords.values())
        ):
            return False
        inner = inner.func
    held = [*inner.parameters(), *inner.buffers()] if isinstance(inner, nn.Module) else []
    return all(t.numel() == 1 for t in held)


def canonical(map: Callable[..., Tensor]) -> tuple[Callable[..., Tensor], float]:
    """The map of MAPS that this one is another spelling of, and the factor of its scores; else itself, and 1.

    partial(sparsemax) is sparsemax, partial(softmax, temperature=2.0) softmax of scores times ½. A map with
    settings that make another one of it, as entmax, says so in `spells(**settings)`.
    """
    facts = getattr(map, "facts", None)
    if facts is not None and facts.function is map and facts.name != "entmax":  # the common case: as it is
        return map, 1.0
    if type(map) not in (partial, Map) and not hasattr(map, "spells"):
        return map, 1.0
    inner: Any = map
    settings: dict[str, Any] = {}
    while isinstance(inner, partial):
        if inner.args:
            return map, 1.0
        inner, settings = inner.func, {**inner.keywords, **settings}
    inner = inner.function if isinstance(inner, Map) else inner
    if hasattr(inner, "spells"):
        found: tuple[Callable[..., Tensor], float] | None = inner.spells(**settings)
        return found or (map, 1.0)
    return (map if settings else inner), 1.0
