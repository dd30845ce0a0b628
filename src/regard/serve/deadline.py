"""A deadline for the work of a model: whichever of its modules is called after it raises `Late`.

Work in a thread cannot be stopped from outside, so it looks at the clock itself, every time a module of the
model is called. The deadline is context-local: other threads and other users of the model have none.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from time import monotonic

from torch import nn

_until: ContextVar[float] = ContextVar("regard_deadline", default=inf)


class Late(Exception):
    """The time for an answer is over."""


def hurry(*_: object) -> None:
    """Raise `Late` if the deadline is over."""
    if monotonic() > _until.get():
        raise Late


def watch(model: nn.Module) -> None:
    """Have every module of a model look at the clock before it runs."""
    for module in model.modules():
        module.register_forward_pre_hook(hurry)


@contextmanager
def until(moment: float) -> Iterator[None]:
    """Give the work in this block until then, on the clock of `time.monotonic`."""
    token = _until.set(moment)
    try:
        hurry()
        yield
    finally:
        _until.reset(token)


def afford(seconds: float) -> None:
    """Raise `Late` at once if work that looks at no clock would end after the deadline."""
    if monotonic() + seconds > _until.get():
        raise Late
