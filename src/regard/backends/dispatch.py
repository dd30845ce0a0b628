"""Dispatch: each call runs on the fastest backend that gives the plain answer."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from regard.backends import certified, flash, sparse, step
from regard.backends.blocks import blocks, by_rows, size
from regard.backends.call import Call
from regard.backends.features import features
from regard.backends.plain import plain
from regard.backends.sparse_values import with_values

_written = False  # whether weights are to be written out wherever they can be
LARGE = 1 << 22  # numbers of size m × n, above which memory counts


def dispatch(call: Call) -> tuple[Tensor, Tensor | None]:
    """Context (..., m, d_v), and the weights (..., m, n) where they have to be kept or came anyway."""
    facts = call.facts
    if _written and (context := features(call)) is not None:
        return context, None
    if call.change is not None or _written:
        return plain(call)
    if facts is None:  # a map of the user's own: it may draw random numbers, so small weights are kept
        return (blocks(call), None) if not transformed() and _large(call) and by_rows(call) else plain(call)
    if facts.acts_on == "matrix" or facts.stochastic:
        return plain(call)
    if transformed():
        return plain(call)[0], None
    if call.codes is not None and (context := certified.certified(call)) is not None:
        return context, None
    if (context := features(call)) is not None:
        return context, None
    if step.takes(call) and (context := step.step(call)) is not None:
        return context, None
    if (context := flash.flash(call)) is not None:
        return context, None
    if sparse.takes(call) and (context := sparse.sparse(call)) is not None:
        return context, None
    if call.value_term is not None and (context := with_values(call)) is not None:
        return context, None
    return (blocks(call) if _large(call) else plain(call)[0]), None


@contextmanager
def materialised() -> Iterator[None]:
    """While it lasts, attention is computed by the plain steps, its weights written out: for measuring.

    Attention by features has no weights to write. This is for one thread: all threads see it.
    """
    global _written
    before, _written = _written, True
    try:
        yield
    finally:
        _written = before


def _large(call: Call) -> bool:
    """Whether memory counts; of a size that is only known when what is compiled runs, no."""
    if torch.compiler.is_compiling():
        from torch.fx.experimental.symbolic_shapes import statically_known_true

        return statically_known_true(size(call) > LARGE)
    return size(call) > LARGE


def transformed() -> bool:
    """Whether a torch.func transform (vmap, jacrev, …) is under way."""
    return not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None
