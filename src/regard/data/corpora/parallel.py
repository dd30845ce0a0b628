"""CORPORA: every generated parallel corpus by name, each with gold word alignments."""

from functools import partial

from regard.core.registry import Table
from regard.data.corpora.corpus import Corpus
from regard.data.corpora.phrase import Pair
from regard.data.corpora.phrases import phrases
from regard.data.corpora.toys import copy, dictionary, reverse

CORPORA: Table[Corpus[Pair]] = Table("corpus", {})
for _corpus in (
    Corpus("phrases-de", "Dates, times, numbers and prices, English to German.", partial(phrases, "de")),
    Corpus("phrases-fr", "Dates, times, numbers and prices, English to French.", partial(phrases, "fr")),
    Corpus("copy", "The words of the source.", copy),
    Corpus("reverse", "The words of the source from last to first.", reverse),
    Corpus("dictionary", "Word by word into another language, adjectives after their nouns.", dictionary),
):
    CORPORA.enter(_corpus.name, _corpus)
