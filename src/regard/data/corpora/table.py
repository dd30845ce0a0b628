"""CORPORA: every generated corpus by name."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from regard.core.registry import Table
from regard.data.corpora.phrase import Pair
from regard.data.corpora.phrases import phrases
from regard.data.corpora.split import Split
from regard.data.corpora.toys import copy, dictionary, reverse


@dataclass(frozen=True)
class Corpus:
    """A generated corpus: calling it gives its pairs, without end."""

    name: str
    says: str  # one sentence
    make: Callable[[int, Split], Iterator[Pair]]

    def __call__(self, seed: int = 0, split: Split = "train") -> Iterator[Pair]:
        return self.make(seed, split)


CORPORA: Table[Corpus] = Table("corpus", {})
for _corpus in (
    Corpus(
        "phrases-de", "Dates, times, numbers and prices, English to German.", lambda *a: phrases("de", *a)
    ),
    Corpus(
        "phrases-fr", "Dates, times, numbers and prices, English to French.", lambda *a: phrases("fr", *a)
    ),
    Corpus("copy", "The words of the source.", copy),
    Corpus("reverse", "The words of the source from last to first.", reverse),
    Corpus("dictionary", "Word by word into another language, adjectives after their nouns.", dictionary),
):
    CORPORA.enter(_corpus.name, _corpus)
