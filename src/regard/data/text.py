"""Parallel text: two files of lines, or CSV, TSV or JSONL with pairs; plain or gzip, read as a stream.

One sentence per line. A file that cannot be read raises a DataError that names the file and the line.
"""

from collections.abc import Iterator
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any

from regard.data.tables import Column, kind_of, objects, table
from regard.data.text_lines import LONGEST as LONGEST
from regard.data.text_lines import DataError as DataError
from regard.data.text_lines import lines as lines
from regard.data.text_lines import located_lines as located_lines
from regard.data.text_lines import numbered_lines as numbered_lines

KINDS = (".tsv", ".csv", ".jsonl")  # of files that hold both sides


def pairs(
    source: str | Path,
    target: str | Path | None = None,
    source_column: str | None = None,
    target_column: str | None = None,
) -> Iterator[tuple[str, str]]:
    """Read (source, target) sentences from two files of lines, or one .tsv, .csv or .jsonl (each also .gz).

    Columns are for one file: what it calls source and target (`data.tables`).
    """
    named = source_column is not None or target_column is not None
    if target is not None:
        if named:
            raise DataError("columns are named for one file of pairs; there are two, source and target.")
        yield from _side_by_side(Path(source), Path(target))
        return
    if kind_of(source) not in KINDS:
        raise DataError(
            f"{source}: one file of pairs must end in .tsv, .csv or .jsonl; for two files, give a target."
        )
    if kind_of(source) == ".jsonl" and not named:
        yield from (_translation(entry, where) for where, entry in objects(source))
        return
    columns = {
        "source": Column(("source",), "--source-column", source_column, heads=True),
        "target": Column(("target",), "--target-column", target_column, heads=True),
    }
    for where, entry in table(source, columns):
        yield _checked([entry["source"], entry["target"]], where)


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
    return _checked(texts, where)


def _checked(texts: list[Any], where: str) -> tuple[str, str]:
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
