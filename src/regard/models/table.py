"""MODELS: every model by name, with its configuration."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from regard.core.registry import Table, first_line
from regard.models.model import Model

K = TypeVar("K", bound=type[Model[Any, Any]])


@dataclass(frozen=True)
class Entry:
    """A model and its configuration; `make(**settings)` builds one."""

    name: str
    kind: type[Model[Any, Any]]
    config: type[Any]
    says: str  # one sentence

    def make(self, **settings: Any) -> Model[Any, Any]:
        """The model with these settings; the others have their defaults."""
        return self.kind(self.config(**settings))  # type: ignore[call-arg]


MODELS: Table[Entry] = Table("model", {})


def register(config: type[Any]) -> Callable[[K], K]:
    """Enter a model class into MODELS under the name of its file, with its configuration."""

    def enter(kind: K) -> K:
        name = kind.__module__.rsplit(".", 1)[-1]
        MODELS.enter(name, Entry(name, kind, config, first_line(kind)))
        return kind

    return enter
