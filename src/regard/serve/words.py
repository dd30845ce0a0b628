"""The words of a sentence, which people click on, and the pieces of each, which a model reads."""

import re
from collections.abc import Collection
from itertools import pairwise

from regard.data import Tokenizer

# What stands between white space. Python counts four separators of files and records as white space, which
# Unicode and the tokenizers do not.
WORD = re.compile(r"(?:\S|[\x1c-\x1f])+")
SPACE_AT_END = re.compile(r"[^\S\x1c-\x1f]+\Z")


def words_of(text: str) -> list[str]:
    """The words of a text."""
    return WORD.findall(text)


def pieces_of(tokenizer: Tokenizer, text: str) -> list[int]:
    """For each piece of a text, as the tokenizer cuts it, the number of its word: that of its last character.

    White space belongs to the word before it, or to the first.
    """
    before = " " if tokenizer.kind == "bpe" and text else ""
    spans = tokenizer.inner.encode(before + text, add_special_tokens=False).offsets
    starts = [found.start() for found in WORD.finditer(text)]
    word_at = [0] * (starts[0] if starts else len(text))  # of each character
    for number, (start, stop) in enumerate(pairwise([*starts, len(text)])):
        word_at += [number] * (stop - start)
    return [word_at[max(stop - len(before) - 1, 0)] for _, stop in spans]


def without(text: str, gone: Collection[int]) -> str:
    """The text without these words, by number: each leaves with the white space after it."""
    starts = [found.start() for found in WORD.finditer(text)]
    if not starts:
        return text
    parts = [text[start:stop] for start, stop in pairwise([*starts, len(text)])]
    kept = text[: starts[0]] + "".join(part for number, part in enumerate(parts) if number not in gone)
    return SPACE_AT_END.sub("", kept) if len(parts) - 1 in gone else kept
