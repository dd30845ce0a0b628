"""CLASSIFIERS: every classifier by name, with its configuration."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from regard.core.registry import Table, first_line
from regard.models.classifiers.classifier import Classifier

K = TypeVar("K", bound=type[Classifier])


@dataclass(frozen=True)
class Entry:
    """A classifier and its configuration; `make(**settings)` builds one."""

    name: str
    kind: type[Classifier]
    config: type[Any]
    says: str  # one sentence

    def make(self, **settings: Any) -> Classifier:
        """The classifier with these settings; the others have their defaults."""
        return self.kind(self.config(**settings))


CLASSIFIERS: Table[Entry] = Table("classifier", {})


def register(config: type[Any]) -> Callable[[K], K]:
    """Enter a class into CLASSIFIERS under the name of its file, with its configuration."""

    def enter(kind: K) -> K:
        name = kind.__module__.rsplit(".", 1)[-1]
        CLASSIFIERS.enter(name, Entry(name, kind, config, first_line(kind)))
        return kind

    return enter
