"""A deadline for the work of a model: whichever of its modules is called after it raises `DeadlineExceeded`.

A thread cannot be stopped from outside, so the clock is checked every time a module of the model is called.
The deadline is context-local: other threads and other users of the model have none.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from time import monotonic

from torch import nn

_deadline: ContextVar[float] = ContextVar("regard_deadline", default=inf)


class DeadlineExceeded(Exception):
    """There is no time left for an answer."""


def require_time(seconds: float = 0.0) -> None:
    """Raise `DeadlineExceeded` if the deadline is over, or will be before work of so many seconds ends."""
    if monotonic() + seconds > _deadline.get():
        raise DeadlineExceeded


def watch(model: nn.Module) -> None:
    """Have every module of a model check the deadline before it runs."""
    for module in model.modules():
        module.register_forward_pre_hook(lambda *_: require_time())


@contextmanager
def deadline(moment: float) -> Iterator[None]:
    """Work in this block must be done at this moment, on the clock of `time.monotonic`."""
    token = _deadline.set(moment)
    try:
        require_time()
        yield
    finally:
        _deadline.reset(token)
