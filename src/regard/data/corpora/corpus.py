"""A generated corpus: a name, a description, and endless examples."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from regard.data.corpora.split import Split

Example = TypeVar("Example")


@dataclass(frozen=True)
class Corpus(Generic[Example]):
    """A generated corpus; calling it gives its examples, the same for the same seed and split."""

    name: str
    says: str  # a description in one sentence
    make: Callable[[int, Split], Iterator[Example]]

    def __call__(self, seed: int = 0, split: Split = "train") -> Iterator[Example]:
        return self.make(seed, split)
