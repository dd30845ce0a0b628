"""Files of word alignments: Pharaoh and NAACL, read and written.

    Pharaoh   one line per sentence: 0-0 1p2 2-1       source-target; "-" is sure, "p" possible; from 0 or 1
    NAACL     one line per link: 0001 1 2 P            sentence, source, target, S or P; from 1

A Pharaoh file does not say whether it counts from 0 or from 1. It is found out from the whole file: a 0
counts from 0, a number equal to the length of its sentence from 1, and a file with both is wrong. Positions
of 0 in a NAACL file are the empty word: such links are left out.

NAACL: Mihalcea & Pedersen (2003), "An Evaluation Exercise for Word Alignment", HLT-NAACL workshop.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.alignment.links import Link, Links
from regard.data.text import DataError, lines

PHARAOH = re.compile(r"(\d+)([-p])(\d+)")
NAACL = re.compile(r"(\d+)\s+(\d+)\s+(\d+)(?:\s+([SP]))?(?:\s+[\d.eE+-]+)?")
Sizes = Sequence[tuple[int, int]]  # words of source and target, sentence by sentence


def read(
    path: str | Path,
    sizes: Sizes,
    *,
    base: int | None = None,
    gold: bool = False,
    skipped: list[str] | None = None,
) -> list[Links]:
    """The links of each sentence in a Pharaoh or NAACL file, checked against the sentences' sizes.

    A gold file may be about the first sentences alone, and has links for each of them that has words. Links
    out of range are an error, or, where `skipped` is given, left out and said there, one line each.
    """
    if base not in (None, 0, 1):
        raise ValueError(f"base must be 0 or 1, or None to find out; got {base!r}.")
    text = [line.strip() for line in lines(path)]
    first = next((line for line in text if line), "")
    if NAACL.fullmatch(first):
        return _naacl(Path(path), text, sizes, gold, skipped)
    if len(text) > len(sizes):
        raise DataError(f"{path}, line {len(sizes) + 1}: there are only {len(sizes):,} sentences.")
    if len(text) < len(sizes) and not gold:
        raise DataError(f"{path} ends after line {len(text):,}, and there are {len(sizes):,} sentences.")
    found = [_line(line, f"{path}, line {k}") for k, line in enumerate(text, start=1)]
    if gold:
        for k, (marks, size) in enumerate(zip(found, sizes, strict=False), start=1):
            if not marks and min(size):
                raise DataError(
                    f"{path}, line {k}: no links, and the sentence has words ({size[0]} and {size[1]})."
                )
    if base is None:
        fewest = None if skipped is None else _fewest_out_of_range(found, sizes)
        base = _base(Path(path), found, sizes) if fewest is None else fewest
    return [
        _checked(marks, size, base, f"{path}, line {k}", skipped)
        for k, marks, size in _numbered(found, sizes)
    ]


def write(links: Iterable[Links], *, base: int = 0) -> Iterable[str]:
    """Lines of a Pharaoh file."""
    for one in links:
        marks = [(i + base, "-" if (i, j) in one.sure else "p", j + base) for i, j in sorted(one.possible)]
        yield " ".join(f"{i}{mark}{j}" for i, mark, j in marks)


def write_naacl(links: Iterable[Links]) -> Iterable[str]:
    """Lines of a NAACL file."""
    for number, one in enumerate(links, start=1):
        for i, j in sorted(one.possible):
            yield f"{number:04d} {i + 1} {j + 1} {'S' if (i, j) in one.sure else 'P'}"


Marks = list[tuple[int, str, int]]


def _line(line: str, where: str) -> Marks:
    marks = []
    for item in line.split():
        match = PHARAOH.fullmatch(item)
        if match is None:
            raise DataError(f'{where}: a link is written "2-3", or "2p3" if only possible; found {item!r}.')
        marks.append((int(match[1]), match[2], int(match[3])))
    return marks


def _numbered(found: list[Marks], sizes: Sizes) -> Iterable[tuple[int, Marks, tuple[int, int]]]:
    return ((k, marks, size) for k, (marks, size) in enumerate(zip(found, sizes, strict=False), start=1))


def _base(path: Path, found: list[Marks], sizes: Sizes) -> int:
    """What the file counts from."""
    zero = next((k for k, marks, _ in _numbered(found, sizes) if any(0 in (i, j) for i, _, j in marks)), None)
    last = next(
        (k for k, marks, (n, m) in _numbered(found, sizes) if any(i == n or j == m for i, _, j in marks)),
        None,
    )
    if zero is not None and last is not None:
        raise DataError(
            f"{path}, line {last}: a word beyond the end if counted from 0, but line {zero} has a word 0. "
            "The whole file must count from 0 or from 1, and belong to these sentences, source first."
        )
    if zero is None and last is None and any(found):
        raise DataError(
            f"{path}: nothing in it tells whether it counts from 0 or from 1. Say so: base 0 or 1."
        )
    return 0 if last is None else 1


def _fewest_out_of_range(found: list[Marks], sizes: Sizes) -> int | None:
    """0 or 1, whichever leaves fewer links out of range; None if both leave as many."""
    zero, one = (
        sum(
            _beyond(*mark, size, base) is not None
            for _, marks, size in _numbered(found, sizes)
            for mark in marks
        )
        for base in (0, 1)
    )
    return None if zero == one else int(one < zero)


def _beyond(i: int, mark: str, j: int, size: tuple[int, int], base: int) -> str | None:
    """Why a link is out of range, if it is."""
    for number, words, side in ((i, size[0], "source"), (j, size[1], "target")):
        if not base <= number < words + base:
            return f"{i}{mark}{j} is out of range: the {side} has {words} words, counted from {base}."
    return None


def _checked(
    marks: Marks, size: tuple[int, int], base: int, where: str, skipped: list[str] | None = None
) -> Links:
    """Links counted from 0, all inside the sentence."""
    links: dict[str, set[Link]] = {"-": set(), "p": set()}
    for i, mark, j in marks:
        beyond = _beyond(i, mark, j, size, base)
        if beyond is None:
            links[mark].add((i - base, j - base))
        elif skipped is None:
            raise DataError(f"{where}: {beyond}")
        else:
            skipped.append(f"{where}: {beyond}")
    return Links(frozenset(links["-"]), frozenset(links["p"]))


def _naacl(path: Path, text: list[str], sizes: Sizes, gold: bool, skipped: list[str] | None) -> list[Links]:
    found: list[Marks] = [[] for _ in sizes]
    last = 0
    for k, line in enumerate(text, start=1):
        if not line:
            raise DataError(f"{path}, line {k}: an empty line.")
        match = NAACL.fullmatch(line)
        if match is None:
            raise DataError(
                f'{path}, line {k}: a link is "sentence source target S", or P; found {line[:40]!r}.'
            )
        number, i, j = int(match[1]), int(match[2]), int(match[3])
        if not 1 <= number <= len(sizes):
            raise DataError(f"{path}, line {k}: sentence {number}, and there are {len(sizes):,}, from 1.")
        last = max(last, number)
        if i and j:
            mark = (i, "p" if match[4] == "P" else "-", j)
            links = _checked([mark], sizes[number - 1], 1, f"{path}, line {k}", skipped)
            found[number - 1] += [mark] * len(links.possible)
    kept = found[:last] if gold else found
    return [_checked(marks, size, 1, str(path)) for _, marks, size in _numbered(kept, sizes)]


def said_skipped(skipped: list[str]) -> list[str]:
    """How many links were skipped, and the first, as one line; none if there are none."""
    count = f"{len(skipped):,} gold link{'s' if len(skipped) > 1 else ''} skipped"
    return [f"{count}; the first: {skipped[0]}"] if skipped else []
