"""Who is looking at, or changing, the attentions of this thread of work.

Context-local, never written into a module: threads, tasks and nested uses do not see each other.
`regard.looking` sets it, attentions ask it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Any

from torch import Tensor, nn

Change = Callable[[Tensor], Tensor]


class Attentive(nn.Module):
    """A module that attends: what `record` and `intervene` find by its path."""


@dataclass(frozen=True, eq=False)
class Watch:
    """One active `record` (see) or `intervene` (change), and the attentions it is about."""

    paths: dict[nn.Module, str]
    see: Callable[[str, Any], None] | None = None
    change: Change | None = None


_watches: ContextVar[tuple[Watch, ...]] = ContextVar("regard_watches", default=())
_lock = Lock()
active = (
    0  # watches anywhere; while there is none nobody is asked, and what was compiled then is compiled anew
)


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Watch for as long as the block lasts, in this context alone."""
    global active
    token = _watches.set((*_watches.get(), watch))
    with _lock:
        active += 1
    try:
        yield
    finally:
        with _lock:
            active -= 1
        _watches.reset(token)


def change_for(owner: nn.Module | None) -> Change | None:
    """What is done to the weights of this attention now, outermost intervention first; None if nothing."""
    return None if owner is None or not active else _change_for(owner)


def show(owner: nn.Module, attended: Any) -> None:
    """Hand what an attention did to everybody who is recording it."""
    if active:
        _show(owner, attended)


def _change_for(owner: nn.Module) -> Change | None:
    changes = [w.change for w in _watches.get() if w.change is not None and owner in w.paths]
    if not changes:
        return None

    def change(weights: Tensor) -> Tensor:
        for one in changes:
            weights = one(weights)
        return weights

    return change


def _show(owner: nn.Module, attended: Any) -> None:
    for watch in _watches.get():
        if watch.see is not None and owner in watch.paths:
            watch.see(watch.paths[owner], attended)


# As torch.compiler.disable says it: run these, do not trace them. Importing that takes as long as torch.
_change_for._torchdynamo_disable = _show._torchdynamo_disable = True  # type: ignore[attr-defined]
