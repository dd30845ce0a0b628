"""Parallel text: two files of lines, TSV or JSONL, plain or gzip, read as a stream.

Strict UTF-8, one sentence per line; only "\\n" and "\\r\\n" end a line (Unicode has other line breaks, and a
corpus may contain them). A file that cannot be read raises a DataError that names the file and the line.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, cast

LONGEST = 65_536  # bytes of a line


class DataError(ValueError):
    """Data that cannot be used; the message names the file, the line and the problem."""


def pairs(source: str | Path, target: str | Path | None = None) -> Iterator[tuple[str, str]]:
    """Read (source, target) sentences from two files of lines, or from one .tsv or .jsonl (each also .gz)."""
    if target is not None:
        yield from _side_by_side(Path(source), Path(target))
        return
    wrong = "one file of pairs must end in .tsv or .jsonl; for two files, give a target."
    for where, entry in records(source, wrong):
        if isinstance(entry, list) and len(entry) != 2:
            raise DataError(f"{where}: two columns, source and target, are needed; found {len(entry)}.")
        yield (entry[0], entry[1]) if isinstance(entry, list) else _translation(entry, where)


def records(path: str | Path, wrong: str) -> Iterator[tuple[str, list[str] | dict[str, Any] | str]]:
    """The lines of a .tsv as cells, of a .jsonl as objects, each with the place where it stands.

    Empty lines of a .jsonl are skipped; one that holds no object stays a line. A file that is neither is
    `wrong`.
    """
    path = Path(path)
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if kind not in (".tsv", ".jsonl"):
        raise DataError(f"{path}: {wrong}")
    for where, line in located_lines(path):
        if kind == ".tsv":
            yield where, line.split("\t")
        elif line.strip():
            try:
                entry = json.loads(line)
            except ValueError as error:
                raise DataError(f"{where}: not JSON ({error}).") from None
            yield where, entry if isinstance(entry, dict) else line


def lines(path: str | Path) -> Iterator[str]:
    """Read the lines of a plain or .gz file, without line ends; an empty file is an error."""
    return (line for _, line in located_lines(path))


def located_lines(path: str | Path) -> Iterator[tuple[str, str]]:
    """The lines of a file, each with the place where it stands: the file and the number of the line."""
    path, number = Path(path), 0
    try:
        if path.is_dir():
            raise DataError(f"{path}: a file is needed, and this is a folder.")
        with cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb") as file:
            for where, line in numbered_lines(file, str(path)):
                number += 1
                if "\0" in line:
                    at = len(line.partition("\0")[0].encode()) + 1
                    raise DataError(f"{where}: a NUL byte at byte {at}. The text must be UTF-8.")
                yield where, line
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}, after line {number}: the gzip data is broken ({error}).") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from None
    if not number:
        raise DataError(f"{path}: the file is empty.")


def numbered_lines(file: IO[bytes], name: str) -> Iterator[tuple[str, str]]:
    """The lines of an open file of this name, each with the place where it stands."""
    number = 0
    while raw := file.readline(LONGEST + 3):
        number += 1
        where = f"{name}, line {number}"
        yield where, _text(raw, where, first=number == 1)


def _text(raw: bytes, where: str, first: bool) -> str:
    """One line as text, without its end; the first also without a byte order mark."""
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if first:
        raw = raw.removeprefix(b"\xef\xbb\xbf")
    if len(raw) > LONGEST:
        raise DataError(f"{where}: more than {LONGEST:,} bytes. A line is one sentence: split or remove it.")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"invalid UTF-8 at byte {error.start + 1} (0x{raw[error.start]:02x})"
        raise DataError(f"{where}: {what}. Convert the file to UTF-8.") from None


def _side_by_side(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    ours, theirs = lines(source), lines(target)
    for count, (one, other) in enumerate(zip_longest(ours, theirs)):
        if one is None or other is None:
            long, short, rest = (target, source, theirs) if one is None else (source, target, ours)
            total = count + 1 + sum(1 for _ in rest)
            raise DataError(
                f"{short} has {count:,} lines and {long} has {total:,}: they must match line by line."
            )
        yield one, other


def _translation(entry: dict[str, Any] | str, where: str) -> tuple[str, str]:
    """{"source": …, "target": …}, or {"translation": {…}} with the source language first."""
    inner = entry.get("translation", entry) if isinstance(entry, dict) else None
    if isinstance(inner, dict) and inner.keys() >= {"source", "target"}:
        texts = [inner["source"], inner["target"]]
    elif inner is not entry and isinstance(inner, dict) and len(inner) == 2:
        texts = list(inner.values())
    else:
        wanted = 'an object with the keys "source" and "target", or "translation" with two languages'
        names = ", ".join(map(repr, entry)) or "none"
        found = names if isinstance(entry, dict) else f"no object: {entry[:40]}"
        raise DataError(f"{where}: {wanted}, is needed; found {found}.")
    for text in texts:
        if not isinstance(text, str):
            raise DataError(f"{where}: source and target must be text; got {type(text).__name__}.")
        if "\0" in text:
            raise DataError(f"{where}: a NUL character in the text.")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(f"{where}: half of a surrogate pair, which is no character.") from None
    return texts[0], texts[1]


def needed(module: str) -> Any:
    """Import a module of `regard[text]`; the error, if it is missing, says how to install it."""
    try:
        return import_module(module)
    except ImportError:
        library = module.split(".")[0]
        raise ImportError(f"this needs {library}: pip install 'regard[text]'") from None
