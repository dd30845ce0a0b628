"""Small versions of experiments, to see that they run: two steps of training, a handful of texts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any, TypeVar

QUICK = ContextVar("quick", default=False)
R = TypeVar("R")


@contextmanager
def quick() -> Iterator[None]:
    """Within this, `few` and `sized` are small."""
    token = QUICK.set(True)
    try:
        yield
    finally:
        QUICK.reset(token)


def few(steps: int) -> int:
    """So many steps of training; two when quick."""
    return min(steps, 2) if QUICK.get() else steps


def sized(count: int, small: int = 32) -> int:
    """So many texts, pairs or draws; `small` when quick."""
    return min(count, small) if QUICK.get() else count


def remembered(function: Callable[..., R]) -> Callable[..., R]:
    """Keep the last 24 results: claims that ask the same model of a seed share it."""

    @lru_cache(24)
    def kept(small: bool, *args: Any, **settings: Any) -> R:
        return function(*args, **settings)

    @wraps(function)
    def call(*args: Any, **settings: Any) -> R:
        return kept(QUICK.get(), *args, **settings)

    return call
