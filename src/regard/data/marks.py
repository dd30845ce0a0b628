"""Marked words: which words of texts are meant, in the file that `--deceive` and `evaluate --words` take.

words    one word per line: wherever it occurs, in upper or lower case
marks    a line for each text, with 1 for each of its words that is marked and 0 for each other one

A file of nothing but 0 and 1 has marks. Here a word is what white space separates.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from regard.data.labelled import Labelled
from regard.data.segments import split_at_spaces, split_words
from regard.data.text_lines import DataError, lines, located_lines

Located = tuple[str, Labelled]


def marked_words(path: str | Path) -> tuple[str, ...] | None:
    """The words in a file; None if it has marks."""
    found = [line.split() for line in lines(path)]
    words = [row[0] for row in found if row]
    if words and all(cell in ("0", "1") for row in found for cell in row):
        return None
    several = next((row for row in found if len(row) > 1), None)
    if not words or several is not None:
        why = (
            "there is no word in it"
            if not words
            else f"one word per line is needed; got {' '.join(several or [])!r}"
        )
        raise DataError(f"{path}: {why}.")
    return tuple(words)


def mark(texts: Iterable[Located], path: str | Path) -> Iterator[Located]:
    """The texts, marked as a file says."""
    words = marked_words(path)
    if words is not None:
        known = {word.casefold() for word in words}
        for where, text in texts:
            every = split_words(text.text)
            yield (
                where,
                replace(text, marked=tuple(s for s in every if text.text[slice(*s)].casefold() in known)),
            )
        return
    for number, (located, row) in enumerate(zip_longest(texts, located_lines(path)), 1):
        if located is None or row is None:
            more = "fewer" if row is None else "more"
            raise DataError(
                f"{path}: it has {more} lines than there are texts, of which there must be one each."
            )
        (where, text), (there, line) = located, row
        spans, marks = split_at_spaces(text.text), line.split()
        if len(spans) != len(marks):
            raise DataError(
                f"{there}: {len(marks)} marks for the {len(spans)} words of text {number} ({where})."
            )
        chosen = (span for span, one in zip(spans, marks, strict=True) if one == "1")
        yield where, replace(text, marked=tuple(chosen))
