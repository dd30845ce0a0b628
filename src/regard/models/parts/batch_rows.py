"""Batches of sentences and of hypotheses: several hypotheses share one row of the memory."""

from dataclasses import dataclass, fields, replace
from typing import Any, Self

from torch import Tensor

from regard.core.errors import ShapeError
from regard.memories import KeyValue


@dataclass(frozen=True, eq=False)
class Rows:
    """Tensors with one row per sentence or hypothesis; beam search repeats and reorders the rows."""

    def select(self, index: Tensor) -> Self:
        """The rows with these indices (b',), in this order, of every tensor."""
        return replace(self, **{f.name: _picked(getattr(self, f.name), index) for f in fields(self)})


def _picked(thing: Any, index: Tensor) -> Any:
    if isinstance(thing, Tensor):
        return thing.index_select(0, index)
    if isinstance(thing, KeyValue):
        thing = thing.copy()
        thing.select(index)
        return thing
    return tuple(_picked(part, index) for part in thing) if isinstance(thing, tuple) else thing


def by_sentence(x: Tensor, sentences: int) -> Tensor:
    """Group hypotheses (b·k, m, d) by sentence: (b, k·m, d)."""
    if sentences == 0 or len(x) % sentences:
        raise ShapeError(
            f"every one of the {sentences} sentences of the memory must have the same number of hypotheses; "
            f"got {len(x)} in all."
        )
    return x if len(x) == sentences else x.reshape(sentences, -1, x.shape[-1])


def by_hypothesis(x: Tensor, rows: int) -> Tensor:
    """The inverse: (b, k·m, d) to (b·k, m, d); x (b, d), one row per sentence, to (b·k, d)."""
    if len(x) == rows:
        return x
    if x.dim() == 2:
        return x.repeat_interleave(rows // max(len(x), 1), 0)
    return x.reshape(rows, -1, x.shape[-1])
