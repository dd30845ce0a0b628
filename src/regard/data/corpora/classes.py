"""LABELLED: every generated corpus of labelled texts by name, each with gold highlights."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from regard.core.registry import Table
from regard.data.corpora.agreement import agreement
from regard.data.corpora.hotels import hotels
from regard.data.corpora.sentiment import sentiment
from regard.data.corpora.split import Split
from regard.data.labelled import Labelled


@dataclass(frozen=True)
class LabelledCorpus:
    """A generated corpus: calling it gives its texts, without end."""

    name: str
    says: str  # one sentence
    make: Callable[[int, Split], Iterator[Labelled]]

    def __call__(self, seed: int = 0, split: Split = "train") -> Iterator[Labelled]:
        return self.make(seed, split)


LABELLED: Table[LabelledCorpus] = Table("labelled corpus", {})
for _corpus in (
    LabelledCorpus("sentiment", "Words in any order, of which one to three decide.", sentiment),
    LabelledCorpus("agreement", "The number of the subject, with other nouns around it.", agreement),
    LabelledCorpus("hotels", "Reviews of hotels: what most of three aspects are.", hotels),
    LabelledCorpus("hotels-location", "The same reviews: the location.", partial(hotels, aspect="location")),
    LabelledCorpus(
        "hotels-cleanliness", "The same reviews: the cleanliness.", partial(hotels, aspect="cleanliness")
    ),
    LabelledCorpus("hotels-service", "The same reviews: the service.", partial(hotels, aspect="service")),
):
    LABELLED.enter(_corpus.name, _corpus)
