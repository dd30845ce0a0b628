"""LABELLED: every generated corpus of labelled texts by name, each with gold highlights."""

from functools import partial

from regard.core.registry import Table
from regard.data.corpora.agreement import agreement
from regard.data.corpora.corpus import Corpus
from regard.data.corpora.hotels import hotels
from regard.data.corpora.sentiment import sentiment
from regard.data.labelled import Labelled

LABELLED: Table[Corpus[Labelled]] = Table("labelled corpus", {})
for _corpus in (
    Corpus("sentiment", "Words in any order; one to three of them decide the class.", sentiment),
    Corpus("agreement", "The number of the subject, with other nouns around it.", agreement),
    Corpus("hotels", "Hotel reviews: the sentiment of most of three aspects.", hotels),
    Corpus("hotels-location", "The same reviews: the location.", partial(hotels, aspect="location")),
    Corpus("hotels-cleanliness", "The same reviews: the cleanliness.", partial(hotels, aspect="cleanliness")),
    Corpus("hotels-service", "The same reviews: the service.", partial(hotels, aspect="service")),
):
    LABELLED.enter(_corpus.name, _corpus)
