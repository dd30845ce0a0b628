"""What is asked of a run: a text, some of its words, and what is done to these.

as_it_is      nothing
do_not_look   the words are erased from the attentions that read the text
take_away     the words leave the text: leave-one-out
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from regard.data import Tokenizer
from regard.data.segments import segments, segments_without

How = Literal["as_it_is", "do_not_look", "take_away"]


class CannotAsk(ValueError):
    """A question that has no answer."""


@dataclass(frozen=True)
class Asked:
    """A text without some of its words."""

    words: list[str]  # of the whole text
    gone: list[int]  # numbers of the words that are erased or leave
    places: list[int]  # numbers of the words that are read
    read: str  # the text that is read
    pieces: list[int]  # for each token that is read the number of its word, among those that are read
    erased: list[int]  # tokens that are not looked at

    @property
    def source(self) -> list[str]:
        """The words that are read."""
        return [self.words[place] for place in self.places]


def asked(
    tokenizer: Tokenizer, text: str, words: Collection[int], how: How, longest: int | None = None
) -> Asked:
    """The question about a text without these words (numbers from 0), or as it is; `longest` is in tokens."""
    whole = segments(tokenizer, text)
    for word in words:
        if not 0 <= word < len(whole.words):
            last = len(whole.words) - 1
            raise CannotAsk(f"words must be from 0 to {last}, the words of the text; got {word}.")
    gone = set() if how == "as_it_is" else set(words)
    left = gone if how == "take_away" else set()
    read = segments_without(tokenizer, whole, left) if left else whole
    places = [i for i in range(len(whole.words)) if i not in left]
    pieces = read.word_of if places else []
    if longest is not None and len(pieces) > longest:
        raise CannotAsk(f"the text has {len(pieces):,} tokens; at most {longest:,} are read here.")
    erased = read.tokens_of(gone) if how == "do_not_look" else []
    return Asked(whole.words, sorted(gone), places, read.text, pieces, erased)
