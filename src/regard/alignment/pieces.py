"""How words are cut for counting: lower case, punctuation apart, and at hyphens and apostrophes.

    "Thursday," → thursday ,        "trente-cinq" → trente - cinq        "d'une" → d' une

Links are found between pieces and told of words, which are what white space separates. Punctuation that is
part of a word has no say in the word's links.
"""

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

PIECES = re.compile(r"\w+['’]?|[^\w\s]")
BEGINNING = 4  # letters by which words are taken for forms of one word, or of each other's


class Cut(NamedTuple):
    """The pieces of a text, the word each is of, and whether it speaks for that word."""

    pieces: list[str]
    words: list[int]
    speaks: list[bool]


def cut(text: str) -> Cut:
    """Cut a text into pieces."""
    pieces: list[str] = []
    words: list[int] = []
    speaks: list[bool] = []
    for k, word in enumerate(text.split()):
        parts, spoken = _cut(word)
        pieces += parts
        words += [k] * len(parts)
        speaks += spoken
    return Cut(pieces, words, speaks)


@lru_cache(maxsize=65_536)
def _cut(word: str) -> tuple[list[str], list[bool]]:
    parts = PIECES.findall(word.lower()) or [word.lower()]
    letters = [any(c.isalnum() for c in part) for part in parts]
    return parts, letters if any(letters) else [True] * len(parts)


def beginning(piece: str) -> str:
    """The first letters, without accents."""
    plain = unicodedata.normalize("NFD", piece)
    return "".join(c for c in plain if not unicodedata.combining(c))[:BEGINNING]
