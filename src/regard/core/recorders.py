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
from types import FrameType
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.utils.checkpoint import CheckpointFunction

from regard.core.compiling import in_backward, untraced
from regard.core.errors import ShapeError

COMPILED = (
    "record and intervene look inside what is compiled: compile without fullgraph=True, "
    "or call the model that was given to torch.compile."
)
Change = Callable[[Tensor], Tensor]
OUTPUT = "_output_by_regard"  # and another: the layer that joins their heads
ATTENDS = "_attends_by_regard"  # an attribute of modules of other libraries that attend through us


INPUTS = ("query", "keys", "values")


class Attentive(nn.Module):
    """A module that attends: what `record` and `intervene` find by its path.

    A module of one's own derives from it and calls `regard.attend(..., owner=self)`. One that exists already
    is made attentive by `regard.attentive`.
    """


def attends(module: nn.Module) -> bool:
    """Whether `record` and `intervene` find this module: `Attentive`, made so, or marked by a bridge."""
    made = getattr(getattr(module, "forward", None), "attends", False)
    return isinstance(module, Attentive) or ATTENDS in vars(module) or made


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
    on: str = "weights"  # what is changed: these, or the query, keys or values
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


def change_for(owner: nn.Module | None, on: str = "weights") -> Change | None:
    """What is done to the weights of this attention now, outermost intervention first; None if nothing."""
    return None if owner is None or not active else _change_for(owner, on)


def intervened(owner: nn.Module | None) -> bool:
    """Whether anything is done to this attention now: to its weights, query, keys or values."""
    return active > 0 and any(change_for(owner, on) is not None for on in ("weights", *INPUTS))


def changed_inputs(
    owner: nn.Module | None, query: Tensor, keys: Tensor, values: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, keys and values after the interventions on them."""
    if owner is None or not active:
        return query, keys, values
    changed = [_changed(owner, on, t) for on, t in zip(INPUTS, (query, keys, values), strict=True)]
    return changed[0], changed[1], changed[2]


def _changed(owner: nn.Module, on: str, tensor: Tensor) -> Tensor:
    change = change_for(owner, on)
    if change is None:
        return tensor
    changed = change(tensor)
    if not isinstance(changed, Tensor) or changed.shape != tensor.shape:
        came = tuple(changed.shape) if isinstance(changed, Tensor) else type(changed).__name__
        raise ShapeError(f"an intervention must return {on} of shape {tuple(tensor.shape)}; got {came}.")
    return marked(changed.to(tensor.dtype), change)


def looked_at(owner: nn.Module) -> bool:
    """Whether what this attention does now is recorded."""
    return active > 0 and _looked_at(owner)


def show(owner: nn.Module, attended: Any) -> None:
    """Pass what an attention did to every recorder of it."""
    if active:
        _show(owner, attended)


def _change_for(owner: nn.Module, on: str) -> Change | None:
    changes = [
        (r.change, r.serial)
        for r in _recorders.get()
        if r.change is not None and r.on == on and owner in r.paths
    ]
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
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code is CheckpointFunction.forward.__code__ and any(
            frame.f_locals["ctx"].needs_input_grad
        ):
            raise RuntimeError(
                "an intervention may be over when a reentrant checkpoint runs the attention again: "
                "use checkpoint(..., use_reentrant=False)."
            )
        frame = frame.f_back


def _looked_at(owner: nn.Module) -> bool:
    return not in_backward() and any(r.see is not None and owner in r.paths for r in _recorders.get())


def _show(owner: nn.Module, attended: Any) -> None:
    if in_backward():
        return
    for recorder in _recorders.get():
        if recorder.see is not None and owner in recorder.paths:
            recorder.see(recorder.paths[owner], attended)


for function in (_change_for, _looked_at, _show):
    untraced(function, COMPILED)
