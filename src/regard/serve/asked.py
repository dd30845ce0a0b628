"""What is asked of a run: a text, some of its words, and what is done to these.

as_it_is      nothing
do_not_look   the words are erased from the attentions that read the text
take_away     the words leave the text: leave-one-out
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from regard.data import Tokenizer
from regard.serve.words import pieces_of, without, words_of

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
    every = words_of(text)
    for word in words:
        if not 0 <= word < len(every):
            raise CannotAsk(f"words must be from 0 to {len(every) - 1}, the words of the text; got {word}.")
    gone = set() if how == "as_it_is" else set(words)
    left = gone if how == "take_away" else set()
    read = without(text, left)
    places = [i for i in range(len(every)) if i not in left]
    pieces = pieces_of(tokenizer, read) if places else []
    if longest is not None and len(pieces) > longest:
        raise CannotAsk(f"the text has {len(pieces):,} tokens; at most {longest:,} are read here.")
    erased = [i for i, word in enumerate(pieces) if word in gone] if how == "do_not_look" else []
    return Asked(every, sorted(gone), places, read, pieces, erased)
