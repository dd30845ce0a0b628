"""Recording attentions, and changing their weights, query, keys or values, from outside the model.

Both are context-local: other threads, and nested uses, do not see each other. Nothing is written into a
module.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from regard.core.errors import ShapeError, UnknownNameError
from regard.core.recorders import INPUTS, Change, Recorder, attached, attends

if TYPE_CHECKING:
    from regard.attention import Attended


class Record(dict[str, "list[Attended]"]):
    """What was attended: from the path of each attention to one `Attended` per call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Attended]] = []  # all of them, in the order they happened


@contextmanager
def record(model: nn.Module, paths: str | Sequence[str] = "*", *, grad: bool = False) -> Iterator[Record]:
    """Record the attentions whose module path fits (wildcards as in file names); no answer changes a bit.

    What is recorded is detached, unless grad=True. A call that checkpointing runs again is recorded once.
    """
    found, seen = attentions(model, paths), Record()
    for path in found.values():
        seen[path] = []

    def see(path: str, attended: Any) -> None:
        attended = attended if grad else attended.detach()
        seen[path].append(attended)
        seen.calls.append((path, attended))

    with attached(Recorder(found, see=see)):
        yield seen


@contextmanager
def intervene(
    model: nn.Module,
    change: Change,
    paths: str | Sequence[str] = "*",
    *,
    heads: Sequence[int] | None = None,
    on: Literal["weights", "query", "keys", "values"] = "weights",
) -> Iterator[None]:
    """Replace the weights p (..., m, n) of the attentions whose path fits by change(p), of the same shape.

    `on` says what else is replaced instead: the query (..., m, d), keys or values (..., n, d), as the score
    sees them. With `heads`, counted from 0, these alone are given to `change`: (..., len(heads), m, n).

    With changed weights they run on the plain backend: with the identity they equal the fast one to rounding.
    Under `torch.utils.checkpoint`, backward belongs inside the block too: outside, torch raises a
    CheckpointError.
    """
    if on not in ("weights", *INPUTS):
        raise ValueError(f"on must be weights, query, keys or values; got {on!r}.")
    if heads is not None:
        change = _of_heads(change, list(heads), on)
    with attached(Recorder(attentions(model, paths), change=change, on=on)):
        yield


def _of_heads(change: Change, heads: list[int], on: str) -> Change:
    """The change of these heads alone: axis −3."""
    if not heads or len(set(heads)) < len(heads) or min(heads) < 0:
        raise ValueError(f"heads must be different numbers, counted from 0; got {heads}.")

    def changed(whole: Tensor) -> Tensor:
        there = whole.shape[-3] if whole.dim() > 2 else 0
        if max(heads) >= there:
            raise ShapeError(
                f"heads must be below the number of heads, axis −3 of the {on} {tuple(whole.shape)}; "
                f"got {heads}."
            )
        index = torch.tensor(heads, device=whole.device)
        part = whole.index_select(-3, index)
        new = change(part)
        if not isinstance(new, Tensor) or new.shape != part.shape:
            came = tuple(new.shape) if isinstance(new, Tensor) else type(new).__name__
            raise ShapeError(
                f"an intervention must return {on} of shape {tuple(part.shape)}, those of {len(heads)} "
                f"heads; got {came}."
            )
        return whole.index_copy(-3, index, new.to(whole.dtype))

    return changed


def attentions(model: nn.Module, paths: str | Sequence[str] = "*") -> dict[nn.Module, str]:
    """The attentions inside a model by module path; the model itself, if it is one, has the path ""."""
    wanted = [paths] if isinstance(paths, str) else list(paths) if isinstance(paths, Iterable) else [paths]
    if wrong := [type(one).__name__ for one in wanted if not isinstance(one, str)]:
        raise TypeError(
            f"attentions are named by module path, as 'encoder.*'; got {wrong[0]}. Of a module alone: "
            "record(module), intervene(module, change)."
        )
    every: dict[nn.Module, str] = {module: path for path, module in model.named_modules() if attends(module)}
    found = {m: path for m, path in every.items() if any(fnmatchcase(path, w) for w in wanted)}
    if not found:
        known = ", ".join(repr(path) for path in every.values())
        if not known:
            raise UnknownNameError(
                f"{type(model).__name__} has no attention of regard. For those of torch, transformers and "
                'modules that call scaled_dot_product_attention: regard.swap(model, map="softmax") first; '
                "for one of your own: derive it from regard.Attentive and call attend(..., owner=self)."
            )
        raise UnknownNameError(
            f"no attention at {', '.join(map(repr, wanted))}. The attentions of this model: {known}."
        )
    return found
