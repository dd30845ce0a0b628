"""Subject–verb agreement: the beginning of a sentence whose verb must agree with one of several nouns.

    near the lakes , the key to the cabinets beside the door  →  singular

There are zero to three nouns of either number between the subject and the position of the verb and, in half
of the sentences, another before the subject: counting nouns, or taking the first or the last, does not help.
The subject is the gold highlight.

After Linzen, Dupoux & Goldberg (2016), "Assessing the Ability of LSTMs to Learn Syntax-Sensitive
Dependencies", arXiv:1611.01368.
"""

from collections.abc import Iterator
from random import Random

from regard.data.corpora.phrase import pick
from regard.data.corpora.split import Split, stream
from regard.data.labelled import Labelled

NOUNS = [
    ("key", "keys"), ("cabinet", "cabinets"), ("door", "doors"), ("letter", "letters"), ("box", "boxes"),
    ("child", "children"), ("woman", "women"), ("man", "men"), ("teacher", "teachers"), ("city", "cities"),
    ("road", "roads"), ("tree", "trees"), ("picture", "pictures"), ("story", "stories"), ("bird", "birds"),
    ("lake", "lakes"), ("house", "houses"), ("window", "windows"), ("author", "authors"),
    ("shelf", "shelves"), ("lamp", "lamps"), ("horse", "horses"), ("leaf", "leaves"), ("friend", "friends"),
]  # fmt: skip
PLACES = ["to", "near", "behind", "beside", "above", "below", "of", "from", "with"]
BEFORE = ["near", "behind", "beside", "above", "below"]
KINDS = ["old", "new", "small", "large", "green", "red", "quiet", "famous"]


def agreement(seed: int = 0, split: Split = "train", most: int = 3) -> Iterator[Labelled]:
    """Sentences with at most `most` nouns after the subject."""
    if most < 0:
        raise ValueError(f"most must be at least 0; got {most}.")

    def draw(chance: Random) -> Labelled:
        plural = chance.random() < 0.5
        words = []
        if chance.random() < 0.5:
            words += [pick(BEFORE, chance), *_noun(chance, chance.random() < 0.5), ","]
        words += _noun(chance, plural)
        subject = len(words) - 1
        for _ in range(int(chance.random() * (most + 1))):
            words += [pick(PLACES, chance), *_noun(chance, chance.random() < 0.5)]
        return Labelled.of_words(words, "plural" if plural else "singular", [subject])

    return stream(draw, split, seed, "text")


def _noun(chance: Random, plural: bool) -> list[str]:
    kind = [pick(KINDS, chance)] if chance.random() < 0.3 else []
    return ["the", *kind, pick(NOUNS, chance)[plural]]
