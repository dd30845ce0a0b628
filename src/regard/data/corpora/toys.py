"""Toy translation tasks: copy, reverse, flip, and a dictionary with a known reordering, with gold alignments.

Sources are words of a small vocabulary, drawn uniformly, of uniform length. In `dictionary` every word has
one translation; the first half of the vocabulary are adjectives, the second half nouns, and an adjective
before a noun is translated after it. So the reordering is local and determined by the source.
"""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from regard.data.corpora.phrase import Pair
from regard.data.corpora.split import Split, stream

SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]

Order = Callable[[list[int], int], list[int]]  # of the words (ids) and the size of the vocabulary


def _toy(
    order: Order, translated: bool,
    seed: int = 0, split: Split = "train", vocabulary: int = 20, shortest: int = 3, longest: int = 20,
) -> Iterator[Pair]:  # fmt: skip
    """Endless pairs; target word j translates the source word at position j of `order`."""
    if vocabulary < 2:
        raise ValueError(f"vocabulary must be at least 2; got {vocabulary}.")
    if not 1 <= shortest <= longest:
        raise ValueError(f"shortest must be from 1 to longest; got {shortest} and {longest}.")
    ours = [_word(k) for k in range(vocabulary)]
    theirs = [word[::-1] for word in ours] if translated else ours
    if translated:
        Random(vocabulary).shuffle(theirs)

    def draw(chance: Random) -> Pair:
        length = shortest + int(chance.random() * (longest + 1 - shortest))
        ids = [int(chance.random() * vocabulary) for _ in range(length)]
        positions = order(ids, vocabulary)
        source, target = " ".join(ours[k] for k in ids), " ".join(theirs[ids[i]] for i in positions)
        return Pair(source, target, sorted((i, j) for j, i in enumerate(positions)))

    return stream(draw, split, seed)


def _adjectives_last(ids: list[int], vocabulary: int) -> list[int]:
    positions = list(range(len(ids)))
    for j in range(len(ids) - 1):
        if positions[j] == j and ids[j] < vocabulary // 2 <= ids[j + 1]:
            positions[j], positions[j + 1] = j + 1, j
    return positions


def _word(k: int) -> str:
    """The k-th word: ba, be, … zu, then words of several syllables; no two are the same."""
    k, last = divmod(k, len(SYLLABLES))
    return (_word(k - 1) if k else "") + SYLLABLES[last]


copy = partial(_toy, lambda ids, _: list(range(len(ids))), False)
"""The same words: ba de fi → ba de fi."""

reverse = partial(_toy, lambda ids, _: list(range(len(ids)))[::-1], False)
"""The words from last to first: ba de fi → fi de ba."""

flip = partial(_toy, lambda ids, _: [j ^ 1 if j ^ 1 < len(ids) else j for j in range(len(ids))], False)
"""Words flipped two by two: ba de fi go → de ba go fi; the last of an odd number stays."""

dictionary = partial(_toy, _adjectives_last, True)
"""Each word in the other language, an adjective after its noun; every seed has the same dictionary."""
