"""Sentiment of a bag of words: it is known which words decide.

Of 200 words, 20 are positive and 20 negative. A text has one to three words of its class and, if it has more
than one, one of the other class; the rest is neutral. The majority of these words decides the class, nothing
else does; the words of the class are the gold highlights.
"""

from collections.abc import Iterator
from random import Random

from regard.data.corpora.phrase import pick
from regard.data.corpora.split import Split, stream
from regard.data.labelled import Labelled

POSITIVE = [
    "great", "superb", "wonderful", "delightful", "exquisite", "brilliant", "charming", "excellent",
    "moving", "witty", "lovely", "fresh", "graceful", "clever", "touching", "gripping", "splendid",
    "joyful", "magical", "perfect",
]  # fmt: skip
NEGATIVE = [
    "awful", "dull", "boring", "dreadful", "tedious", "clumsy", "terrible", "bland", "lifeless", "stale",
    "horrible", "shallow", "tiresome", "ugly", "pointless", "weak", "painful", "messy", "lazy", "silly",
]  # fmt: skip
NEUTRAL = [
    "the", "a", "this", "that", "these", "one", "two", "three", "and", "or", "with", "from", "into",
    "about", "over", "after", "before", "during", "while", "when", "film", "movie", "story", "scene",
    "plot", "actor", "actress", "director", "camera", "script", "screen", "music", "sound", "light",
    "colour", "image", "voice", "face", "hand", "house", "street", "city", "town", "village", "river",
    "road", "train", "car", "boat", "ship", "bridge", "garden", "kitchen", "table", "chair", "window",
    "door", "room", "wall", "floor", "roof", "stone", "wood", "glass", "paper", "book", "letter", "page",
    "word", "line", "name", "man", "woman", "child", "brother", "sister", "mother", "father", "friend",
    "neighbour", "doctor", "teacher", "farmer", "soldier", "king", "queen", "day", "night", "morning",
    "evening", "week", "month", "year", "summer", "winter", "spring", "autumn", "north", "south", "east",
    "west", "country", "is", "was", "has", "had", "does", "did", "makes", "made", "takes", "took", "gives",
    "gave", "comes", "came", "goes", "went", "sees", "saw", "says", "said", "walks", "runs", "sits",
    "stands", "opens", "closes", "begins", "ends", "follows", "leaves", "returns", "meets", "finds",
    "turns", "moves", "plays", "often", "again", "soon", "later", "here", "there", "then", "now", "once",
    "twice", "first", "last", "next", "other", "same", "another", "every", "some", "many", "few", "still",
    "always",
]  # fmt: skip


def sentiment(
    seed: int = 0, split: Split = "train", length: int = 24, most: int = 3, sentences: int = 1
) -> Iterator[Labelled]:
    """Texts of `length` words, at most `most` of their class, in sentences of equal length that end in a dot.

    A single sentence has no dot.
    """
    if not 1 <= most < length:
        raise ValueError(f"most must be at least 1 and less than length={length}; got {most}.")
    if sentences < 1 or length % sentences:
        raise ValueError(f"sentences must divide length={length}; got {sentences}.")

    def draw(chance: Random) -> Labelled:
        positive = chance.random() < 0.5
        ours, theirs = (POSITIVE, NEGATIVE) if positive else (NEGATIVE, POSITIVE)
        count = 1 + int(chance.random() * most)
        words = [pick(NEUTRAL, chance) for _ in range(length)]
        chosen = chance.sample(range(length), count + (count > 1))
        for k, i in enumerate(chosen):
            words[i] = pick(ours if k < count else theirs, chance)
        if sentences > 1:
            each = length // sentences
            chosen = [i + i // each for i in chosen]  # a dot after each sentence before
            words = [word for i in range(0, length, each) for word in (*words[i : i + each], ".")]
        return Labelled.of_words(words, "positive" if positive else "negative", chosen[:count])

    return stream(draw, split, seed, "text")
