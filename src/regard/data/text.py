"""Parallel text: two files of lines, TSV or JSONL, plain or gzip, read as a stream.

Strict UTF-8, one sentence per line; only "\\n" and "\\r\\n" end a line (Unicode has other line breaks, and a
corpus may contain them). A file that cannot be read raises a DataError that names the file and the line.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
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
    path = Path(source)
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if kind not in (".tsv", ".jsonl"):
        raise DataError(
            f"{path}: one file of pairs must end in .tsv or .jsonl; for two files, give a target."
        )
    split = _columns if kind == ".tsv" else _keys
    for number, line in enumerate(lines(path), start=1):
        if kind == ".tsv" or line.strip():
            yield split(line, f"{path}, line {number}")


def lines(path: str | Path) -> Iterator[str]:
    """Read the lines of a plain or .gz file, without line ends; an empty file is an error."""
    path, number = Path(path), 0
    try:
        with _opened(path) as file:
            while raw := file.readline(LONGEST + 3):
                number += 1
                yield _text(raw, f"{path}, line {number}", first=number == 1)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}, after line {number}: the gzip data is broken ({error}).") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from None
    if not number:
        raise DataError(f"{path}: the file is empty.")


def _opened(path: Path) -> IO[bytes]:
    if path.is_dir():
        raise DataError(f"{path}: a file is needed, and this is a folder.")
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    return path.open("rb")


def _text(raw: bytes, where: str, first: bool) -> str:
    """One line as text, without its end; the first also without a byte order mark."""
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if first:
        raw = raw.removeprefix(b"\xef\xbb\xbf")
    if len(raw) > LONGEST:
        raise DataError(f"{where}: more than {LONGEST:,} bytes. A line is one sentence: split or remove it.")
    if b"\0" in raw:
        raise DataError(f"{where}: a NUL byte at byte {raw.index(0) + 1}. The text must be UTF-8.")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"invalid UTF-8 at byte {error.start + 1} (0x{raw[error.start]:02x})"
        raise DataError(f"{where}: {what}. Convert the file to UTF-8.") from None


def _side_by_side(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    ours, theirs, count = lines(source), lines(target), 0
    while True:
        one, other = next(ours, None), next(theirs, None)
        if one is None and other is None:
            return
        if one is None or other is None:
            long, short, rest = (target, source, theirs) if one is None else (source, target, ours)
            total = count + 1 + sum(1 for _ in rest)
            raise DataError(
                f"{short} has {count:,} lines and {long} has {total:,}: they must match line by line."
            )
        count += 1
        yield one, other


def _columns(line: str, where: str) -> tuple[str, str]:
    columns = line.split("\t")
    if len(columns) != 2:
        raise DataError(f"{where}: two columns, source and target, are needed; found {len(columns)}.")
    return columns[0], columns[1]


def _keys(line: str, where: str) -> tuple[str, str]:
    """{"source": …, "target": …}, or {"translation": {…}} with the source language first."""
    try:
        entry: Any = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where}: not JSON ({error}).") from None
    inner = entry.get("translation", entry) if isinstance(entry, dict) else None
    if isinstance(inner, dict) and inner.keys() >= {"source", "target"}:
        texts = [inner["source"], inner["target"]]
    elif inner is not entry and isinstance(inner, dict) and len(inner) == 2:
        texts = list(inner.values())
    else:
        wanted = 'an object with the keys "source" and "target", or "translation" with two languages'
        found = (
            ", ".join(map(repr, entry)) or "none" if isinstance(entry, dict) else f"no object: {line[:40]}"
        )
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
