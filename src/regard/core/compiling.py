"""What torch is doing: functions that torch.compile runs as they are, and whether backward is under way."""

from collections.abc import Callable
from typing import TypeVar

import torch

F = TypeVar("F", bound=Callable[..., object])


def untraced(function: F, message: str | None = None) -> F:
    """Mark a function to be run, not traced, as torch.compiler.disable does; to import that takes a second.

    `message` is what torch.compile(fullgraph=True) says of it.
    """
    function.__dict__["_torchdynamo_disable"] = True
    if message is not None:
        function.__dict__["_torchdynamo_disable_msg"] = message
    return function


def in_backward() -> bool:
    """Whether this runs inside a backward pass, as a function does that checkpointing runs again."""
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1
