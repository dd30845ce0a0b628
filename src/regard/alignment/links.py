"""The links of one sentence: pairs (source word, target word), counted from 0, some sure, all possible."""

from collections.abc import Iterable
from dataclasses import dataclass, field

Link = tuple[int, int]


@dataclass(frozen=True)
class Links:
    """Sure links, and possible ones, which include the sure ones. What a system finds is sure."""

    sure: frozenset[Link]
    possible: frozenset[Link] = field(default=frozenset())

    def __post_init__(self) -> None:
        object.__setattr__(self, "sure", frozenset(self.sure))
        object.__setattr__(self, "possible", frozenset(self.possible) | self.sure)

    @classmethod
    def of(cls, links: Iterable[Link]) -> "Links":
        """Links that are all sure."""
        return cls(frozenset(links))

    def reversed(self) -> "Links":
        """The same with target and source exchanged."""
        return Links(frozenset((j, i) for i, j in self.sure), frozenset((j, i) for i, j in self.possible))
