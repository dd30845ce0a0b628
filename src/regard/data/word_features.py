"""What counting can tell of the words of one of two texts: features that a reader gets beside word vectors.

found        the word stands in the other text
stem         a word with the same first five letters stands there
long         the word has more than three letters and stands there
capital      it begins with a capital letter
number       it has a digit
mark         it has neither letter nor digit
first        it begins a sentence
again        it stands in its own text more than once
"""

from collections import Counter
from collections.abc import Sequence

FEATURES = ("found", "stem", "long", "capital", "number", "mark", "first", "again")
ENDS = (".", "!", "?", ":", ";")
STEM = 5  # letters


def word_features(words: Sequence[str], others: Sequence[str]) -> list[list[int]]:
    """The features of each of the words, 0 or 1: (n, len(FEATURES)); `others` are those of the other text."""
    lower, there = [word.casefold() for word in words], {word.casefold() for word in others}
    stems = {word[:STEM] for word in there if any(map(str.isalnum, word))}
    counts = Counter(lower)
    found, before = [], ENDS[0]
    for word, small in zip(words, lower, strict=True):
        mark = not any(map(str.isalnum, word))
        here = small in there and not mark
        features = (
            here,
            small[:STEM] in stems and not mark,
            here and len(small) > 3,
            word[:1].isupper(),
            any(map(str.isdigit, word)),
            mark,
            before in ENDS,
            counts[small] > 1,
        )
        found.append([int(feature) for feature in features])
        before = word
    return found
