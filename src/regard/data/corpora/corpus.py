"""Generated corpora by name: CORPORA of pairs with gold alignments, LABELLED of texts with highlights,
RUNNING of text for language models, STORIES of questions on stories, PASSAGES of questions about passages;
IMAGES, CAPTIONED and ASKED of pictures with boxes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from regard.core.registry import Table
from regard.data.corpora.agreement import agreement
from regard.data.corpora.brackets import brackets
from regard.data.corpora.glyphs import glyphs
from regard.data.corpora.grammar import grammar
from regard.data.corpora.hotels import NOUNS, hotels
from regard.data.corpora.passages import cloze, spans
from regard.data.corpora.phrase import Pair
from regard.data.corpora.phrases import phrases
from regard.data.corpora.pronouns import pronouns
from regard.data.corpora.scenes import Asked, Captioned, asked, captioned
from regard.data.corpora.sentiment import sentiment
from regard.data.corpora.split import Split
from regard.data.corpora.story_questions import stories
from regard.data.corpora.toys import copy, dictionary, reverse
from regard.data.images import LabelledImage
from regard.data.labelled import Labelled
from regard.data.questions import PassageQuestion
from regard.data.stories import StoryQuestion

Example = TypeVar("Example")


@dataclass(frozen=True)
class Corpus(Generic[Example]):
    """A generated corpus; calling it gives its examples, the same for the same seed and split."""

    name: str
    says: str  # a description in one sentence
    make: Callable[[int, Split], Iterator[Example]]

    def __call__(self, seed: int = 0, split: Split = "train") -> Iterator[Example]:
        return self.make(seed, split)


def _table(kind: str, *corpora: Corpus[Example]) -> Table[Corpus[Example]]:
    return Table(kind, {one.name: one for one in corpora})


CORPORA: Table[Corpus[Pair]] = _table(
    "corpus",
    Corpus("phrases-de", "Dates, times, numbers and prices, English to German.", partial(phrases, "de")),
    Corpus("phrases-fr", "Dates, times, numbers and prices, English to French.", partial(phrases, "fr")),
    Corpus("copy", "The words of the source.", copy),
    Corpus("reverse", "The words of the source from last to first.", reverse),
    Corpus("dictionary", "Word by word into another language, adjectives after their nouns.", dictionary),
    Corpus("pronouns", "Pronouns that the sentence before decides, English to German.", pronouns),
)

LABELLED: Table[Corpus[Labelled]] = _table(
    "labelled corpus",
    Corpus("sentiment", "Words in any order; one to three of them decide the class.", sentiment),
    Corpus("agreement", "The number of the subject, with other nouns around it.", agreement),
    Corpus("hotels", "Hotel reviews: the sentiment of most of three aspects.", hotels),
    *(Corpus(f"hotels-{one}", f"The same reviews: the {one}.", partial(hotels, aspect=one)) for one in NOUNS),
)

RUNNING: Table[Corpus[str]] = _table(
    "corpus of running text",
    Corpus("grammar", "Sentences with agreement over a distance and nested clauses in brackets.", grammar),
    Corpus("brackets", "Nested brackets of four kinds with letters between them.", brackets),
)

PASSAGES: Table[Corpus[PassageQuestion]] = _table(
    "corpus of questions",
    Corpus("spans", "Facts about people, things, places and days; the answer is a span.", spans),
    Corpus("cloze", "Sentences about anonymous names, and one that leaves a name out.", cloze),
)

STORIES: Table[Corpus[StoryQuestion]] = _table(
    "corpus of stories",
    Corpus("stories", "Who is where and who took what; a question takes one sentence or two.", stories),
    Corpus("one_fact", "The same: where somebody is.", partial(stories, kinds=("one_fact",))),
    Corpus("two_facts", "The same: where a thing is.", partial(stories, kinds=("two_facts",))),
)

IMAGES: Table[Corpus[LabelledImage]] = _table(
    "set of pictures", Corpus("glyphs", "One of ten glyphs somewhere among pieces of glyphs.", glyphs)
)

CAPTIONED: Table[Corpus[Captioned]] = _table(
    "set of captions", Corpus("scenes", "One to three coloured shapes, named in order.", captioned)
)

ASKED: Table[Corpus[Asked]] = _table(
    "set of questions", Corpus("scenes", "What stands beside one of several shapes.", asked)
)
