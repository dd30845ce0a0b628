"""Dependency trees from a CoNLL-U file, plain or gzip.

One word per line, ten columns between tabs: ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC; a blank line
ends a sentence. A range, "2-3 don't", is a token of the text that words 2 and 3 make up; empty nodes, "5.1",
are not in the text and are skipped. https://universaldependencies.org/format.html
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.data.segments import Span
from regard.data.text import DataError, lines

COLUMNS = 10
ID = re.compile(r"(\d+)(?:([-.])(\d+))?$")


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence, its text, and its dependency tree."""

    words: tuple[str, ...]
    text: str  # as it was written: no space where MISC says SpaceAfter=No
    spans: tuple[Span, ...]  # of each word in the text; words of one range may have the same
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    deprel: tuple[str, ...]
    heads: tuple[int, ...]  # the head of each word, from 0; −1 for the root


@dataclass(frozen=True)
class _Row:
    form: str
    upos: str
    xpos: str
    head: str
    deprel: str
    space: bool  # follows


def read_conllu(path: str | Path) -> Iterator[Sentence]:
    """The sentences of a file; a line that cannot be read raises a DataError that names it."""
    rows: list[_Row] = []
    ranges: dict[int, tuple[int, str, bool]] = {}  # by first word: last word, form, whether a space follows
    some, number = False, 0
    for number, line in enumerate(lines(path), 1):
        where = f"{path}, line {number}"
        if not line.strip():
            if rows:
                some = True
                yield _sentence(rows, ranges, where)
            rows, ranges = [], {}
        elif not line.startswith("#"):
            _take(line, rows, ranges, where)
    if rows:
        some = True
        yield _sentence(rows, ranges, f"{path}, line {number}")
    if not some:
        raise DataError(f"{path}: there is no sentence in it.")


def _take(line: str, rows: list[_Row], ranges: dict[int, tuple[int, str, bool]], where: str) -> None:
    cells = line.split("\t")
    if len(cells) != COLUMNS:
        raise DataError(f"{where}: CoNLL-U has {COLUMNS} columns between tabs; found {len(cells)}.")
    found = ID.match(cells[0])
    if found is None or not cells[1].strip():
        raise DataError(f"{where}: a word needs a number and a form; got {cells[0]!r} and {cells[1]!r}.")
    first, kind, last = int(found[1]), found[2], found[3]
    space = "SpaceAfter=No" not in cells[9].split("|")
    if kind == ".":
        return
    if first != len(rows) + 1:
        raise DataError(f"{where}: word {len(rows) + 1} is next; got {cells[0]}.")
    if kind == "-":
        ranges[first] = (int(last), cells[1], space)
    else:
        rows.append(_Row(cells[1], cells[3], cells[4], cells[6], cells[7], space))


def _sentence(rows: list[_Row], ranges: dict[int, tuple[int, str, bool]], where: str) -> Sentence:
    n = len(rows)
    heads = []
    for k, row in enumerate(rows, 1):
        if not row.head.isdecimal() or not 0 <= int(row.head) <= n or int(row.head) == k:
            raise DataError(
                f"{where}: the head of word {k} must be another word of {n}, or 0; got {row.head!r}."
            )
        heads.append(int(row.head) - 1)
    spans: list[Span] = []
    text, k = "", 0
    while k < n:
        last, form, space = ranges.get(k + 1, (k + 1, rows[k].form, rows[k].space))
        if not k < last <= n:
            raise DataError(f"{where}: the range {k + 1}-{last} is not in the sentence's {n} words.")
        parts = [row.form for row in rows[k:last]]
        start = len(text)
        if "".join(parts) == form:
            for part in parts:
                spans.append((start, start + len(part)))
                start += len(part)
        else:
            spans += [(start, start + len(form))] * len(parts)
        text += form + (" " if space else "")
        k = last
    return Sentence(
        tuple(row.form for row in rows),
        text.rstrip(" "),
        tuple(spans),
        tuple(row.upos for row in rows),
        tuple(row.xpos for row in rows),
        tuple(row.deprel for row in rows),
        tuple(heads),
    )
