"""Recording attentions, and changing their weights, from outside the model.

Both are context-local: other threads, and nested uses, do not see each other. Nothing is written into a
module.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from torch import nn

from regard.core.errors import UnknownNameError
from regard.core.recorders import Change, Recorder, attached, attends

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
def intervene(model: nn.Module, change: Change, paths: str | Sequence[str] = "*") -> Iterator[None]:
    """Replace the weights p (..., m, n) of the attentions whose path fits by change(p), of the same shape.

    They run on the plain backend meanwhile: with the identity they equal the fast one to rounding. Under
    `torch.utils.checkpoint`, backward belongs inside the block too: outside, torch raises a CheckpointError.
    """
    with attached(Recorder(attentions(model, paths), change=change)):
        yield


def attentions(model: nn.Module, paths: str | Sequence[str] = "*") -> dict[nn.Module, str]:
    """The attentions inside a model by module path; the model itself, if it is one, has the path ""."""
    wanted = [paths] if isinstance(paths, str) else list(paths)
    every: dict[nn.Module, str] = {module: path for path, module in model.named_modules() if attends(module)}
    found = {m: path for m, path in every.items() if any(fnmatchcase(path, w) for w in wanted)}
    if not found:
        known = ", ".join(repr(path) for path in every.values())
        if not known:
            raise UnknownNameError(
                f"{type(model).__name__} has no attention of regard. For those of torch and of transformers: "
                'regard.swap(model, map="softmax") first; for a module of your own: derive it from '
                "regard.Attentive and call attend(..., owner=self)."
            )
        raise UnknownNameError(
            f"no attention at {', '.join(map(repr, wanted))}. The attentions of this model: {known}."
        )
    return found
