"""The attentions of a model, and the recorders and interventions active in this thread or task.

Attentions are named by role, as module paths that `record` and `intervene` take:

    cross          from the target to the source of a translator, last layer last
    self           self-attentions of the encoder, first layer first
    decoder_self   self-attentions of the decoder, first layer first
    reader         attentions whose weights over the tokens are "the attention" of a classifier;
                   the keys of the first are the tokens

A model has the roles it has, and no others: read them with `attention_paths(model).get(role, [])`.

Recorders are context-local, never written into a module: threads, tasks and nested uses do not see each
other. `regard.recording` attaches them, attentions ask for them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from regard.core.compiling import untraced

Change = Callable[[Tensor], Tensor]


class Attentive(nn.Module):
    """A module that attends: what `record` and `intervene` find by its path."""


@runtime_checkable
class HasAttentionPaths(Protocol):
    """A model that names its attentions."""

    attention_paths: dict[str, list[str]]


def attention_paths(model: object) -> dict[str, list[str]]:
    """Module paths of the model's attentions by role; {} for a model that does not name them."""
    return model.attention_paths if isinstance(model, HasAttentionPaths) else {}


@dataclass(frozen=True, eq=False)
class Recorder:
    """One active `record` (see) or `intervene` (change), and the attentions it is about."""

    paths: dict[nn.Module, str]
    see: Callable[[str, Any], None] | None = None
    change: Change | None = None


_recorders: ContextVar[tuple[Recorder, ...]] = ContextVar("regard_recorders", default=())
_lock = Lock()
active = 0  # recorders in all threads; what was compiled while there were none is compiled again


@contextmanager
def attached(recorder: Recorder) -> Iterator[None]:
    """Attach a recorder for as long as the block lasts, in this context alone."""
    global active
    token = _recorders.set((*_recorders.get(), recorder))
    with _lock:
        active += 1
    try:
        yield
    finally:
        with _lock:
            active -= 1
        _recorders.reset(token)


@contextmanager
def suspended() -> Iterator[None]:
    """Record and change nothing for as long as the block lasts, in this context alone."""
    token = _recorders.set(())
    try:
        yield
    finally:
        _recorders.reset(token)


def change_for(owner: nn.Module | None) -> Change | None:
    """What is done to the weights of this attention now, outermost intervention first; None if nothing."""
    return None if owner is None or not active else _change_for(owner)


def show(owner: nn.Module, attended: Any) -> None:
    """Pass what an attention did to every recorder of it."""
    if active:
        _show(owner, attended)


@untraced
def _change_for(owner: nn.Module) -> Change | None:
    changes = [r.change for r in _recorders.get() if r.change is not None and owner in r.paths]
    if not changes:
        return None

    def change(weights: Tensor) -> Tensor:
        for one in changes:
            weights = one(weights)
        return weights

    return change


@untraced
def _show(owner: nn.Module, attended: Any) -> None:
    for recorder in _recorders.get():
        if recorder.see is not None and owner in recorder.paths:
            recorder.see(recorder.paths[owner], attended)
