"""Names of scores and maps, and the refusal of a class where an instance is meant."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any


def name_of(part: Callable[..., Any]) -> str:
    """The name of a score or a map as the tables have it: "scaled_dot" of a ScaledDot."""
    while isinstance(part, partial):
        part = part.func
    name = getattr(part, "__name__", None) or type(part).__name__
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(name)).lower()


def refuse_class(what: str, part: Any) -> None:
    """Raise if this is a class where one of its instances is meant: map=Entmax for map=Entmax(1.5)."""
    if isinstance(part, type):
        raise TypeError(
            f"{what} must be made, not the class: {what}={part.__name__}(...); got the class {part.__name__}."
        )
