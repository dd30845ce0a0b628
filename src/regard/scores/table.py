"""SCORES: every score by name, and its properties."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from regard.core.registry import Table, first_line
from regard.scores.score import Factored, Score

S = TypeVar("S", bound=type[Score])


@dataclass(frozen=True)
class Entry:
    """The registry entry of a score; `make(d_q, d_k)` builds one."""

    name: str
    kind: type[Score]
    says: str  # one sentence
    learned: bool  # has parameters by default, so it must be built before use
    any_widths: bool  # d_q and d_k may differ

    @property
    def factored(self) -> bool:
        """Whether it is a dot product of two factors, which fast backends need."""
        return issubclass(self.kind, Factored)

    @property
    def looks_around(self) -> bool:
        """Whether the score of a key depends on other keys."""
        return self.kind.looks_around

    def make(self, d_q: int, d_k: int) -> Score:
        """The score for these widths, with default settings."""
        return self.kind.of(d_q, d_k)


SCORES: Table[Entry] = Table("score", {})


def register(*, learned: bool = False, any_widths: bool = False) -> Callable[[S], S]:
    """Enter a score class into SCORES under the name of its file, with its properties."""

    def enter(kind: S) -> S:
        name = kind.__module__.rsplit(".", 1)[-1]
        SCORES.enter(name, Entry(name, kind, first_line(kind), learned, any_widths))
        return kind

    return enter
