"""Tables by name: what there is, and what is true of it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

from regard.core.errors import UnknownNameError

E = TypeVar("E")


@dataclass(frozen=True)
class Table(Mapping[str, E], Generic[E]):
    """A mapping from name to entry, whose KeyError knows what you meant."""

    kind: str  # "map", "score": the word messages use
    entries: dict[str, E]

    def __getitem__(self, name: str) -> E:
        if name in self.entries:
            return self.entries[name]
        near = get_close_matches(name, self.entries, n=1)
        hint = f"; did you mean {near[0]}?" if near else "."
        raise UnknownNameError(f'no {self.kind} "{name}"{hint} Known: {", ".join(sorted(self.entries))}.')

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def enter(self, name: str, entry: E) -> None:
        """Add an entry; a name can be given only once."""
        if name in self.entries:
            raise ValueError(f'there is already a {self.kind} "{name}".')
        self.entries[name] = entry


def first_line(thing: Callable[..., Any]) -> str:
    """The first sentence of a thing's module docstring: what tables show of it."""
    import sys

    text = sys.modules[thing.__module__].__doc__ or thing.__doc__ or ""
    return text.strip().split("\n", 1)[0]
