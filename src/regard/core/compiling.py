"""Functions that torch.compile runs as they are."""

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def untraced(function: F, message: str | None = None) -> F:
    """Mark a function to be run, not traced, as torch.compiler.disable does; to import that takes a second.

    `message` is what torch.compile(fullgraph=True) says of it.
    """
    function.__dict__["_torchdynamo_disable"] = True
    if message is not None:
        function.__dict__["_torchdynamo_disable_msg"] = message
    return function
