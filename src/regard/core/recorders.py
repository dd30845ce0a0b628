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

Under `torch.utils.checkpoint` an attention runs again in backward, which is not recorded a second time. An
intervention leaves a mark among the saved tensors: torch raises if the attention runs again without it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from threading import Lock
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.utils.checkpoint import CheckpointFunction

from regard.core.compiling import in_backward, untraced

COMPILED = (
    "record and intervene look inside what is compiled: compile without fullgraph=True, "
    "or call the model that was given to torch.compile."
)
Change = Callable[[Tensor], Tensor]
OUTPUT = "_output_by_regard"  # and another: the layer that joins their heads
ATTENDS = "_attends_by_regard"  # an attribute of modules of other libraries that attend through us


class Attentive(nn.Module):
    """A module that attends: what `record` and `intervene` find by its path."""


def attends(module: nn.Module) -> bool:
    """Whether `record` and `intervene` find this module: an `Attentive`, or one that a bridge has marked."""
    return isinstance(module, Attentive) or ATTENDS in vars(module)


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
    serial: int = field(default_factory=count(1).__next__)


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


def _change_for(owner: nn.Module) -> Change | None:
    changes = [(r.change, r.serial) for r in _recorders.get() if r.change is not None and owner in r.paths]
    if not changes:
        return None
    if not torch.is_grad_enabled():
        _refuse_reentrant_checkpoint()

    def change(weights: Tensor) -> Tensor:
        for one, _ in changes:
            weights = one(weights)
        return weights

    change.__dict__["serials"] = tuple(serial for _, serial in changes)
    return change


def marked(context: Tensor, change: Change) -> Tensor:
    """The context of changed weights, with a mark of the interventions among the saved tensors."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return context
    mark: Callable[..., Tensor] = _Mark.apply
    return mark(context, getattr(change, "serials", ()))


class _Mark(Function):
    """The identity. Checkpointing compares the shapes of what is saved when a function runs again."""

    @staticmethod
    def forward(ctx: Any, context: Tensor, serials: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(context.new_empty(0, *serials))
        return context.view_as(context)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def _refuse_reentrant_checkpoint() -> None:
    """Raise inside the reentrant form of checkpointing, which compares nothing."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code is CheckpointFunction.forward.__code__ and any(
            frame.f_locals["ctx"].needs_input_grad
        ):
            raise RuntimeError(
                "an intervention may be over when a reentrant checkpoint runs the attention again: "
                "use checkpoint(..., use_reentrant=False)."
            )
        frame = frame.f_back  # type: ignore[assignment]


def _show(owner: nn.Module, attended: Any) -> None:
    if in_backward():
        return
    for recorder in _recorders.get():
        if recorder.see is not None and owner in recorder.paths:
            recorder.see(recorder.paths[owner], attended)


for function in (_change_for, _show):
    untraced(function, COMPILED)
