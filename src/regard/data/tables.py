"""Tables in files: CSV, TSV or JSONL, plain or gzip; the columns that are wanted, by name.

CSV     by the rules of the csv module (quotes, doubled quotes, line breaks within quotes); the separator is a
        comma, semicolon or tab, whichever parts the first line into most columns.
TSV     tabs. With a header, quotes as in CSV, unless a line makes sense only without them: many files are
        written without any rule for quotes.
JSONL   an object in each line; empty lines are skipped.

A CSV has a header, and so has a TSV if its first line has the names of columns; other columns are ignored. A
column can also be given by its number, from 1, where there is no header. What cannot be read raises a
DataError with the number of the line where the record begins.
"""

import csv
import json
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.text_lines import LONGEST, DataError, located_lines

Line = tuple[str, str]  # where it stands, and what it says


class Column(NamedTuple):
    """A column that is wanted."""

    names: tuple[str, ...]  # what files call it; messages, the first
    option: str  # by which a user says what it is called
    chosen: str | None = None  # what a user says it is called
    needed: bool = True
    heads: bool = False  # a first line that has it is a header


Columns = Mapping[str, Column]


def kind_of(path: str | Path) -> str:
    """The ending of a file, without .gz: ".csv"."""
    path = Path(path)
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix


def table(path: str | Path, columns: Columns) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the file has of each record in the wanted columns, and where the record stands."""
    if kind_of(path) == ".jsonl":
        for where, entry in objects(path):
            found = {name: _key(entry, column) for name, column in columns.items()}
            if any(column.needed and found[name] is None for name, column in columns.items()):
                keys = entry if isinstance(entry, str) else ", ".join(map(repr, entry)) or "none"
                raise DataError(f"{where}: an object with {_wanted(columns)} is needed; found {keys[:60]}.")
            yield where, {name: entry[key] for name, key in found.items() if key is not None}
    else:
        yield from _cells(located_lines(path), columns, comma=kind_of(path) == ".csv")


def objects(path: str | Path) -> Iterator[tuple[str, Any]]:
    """The objects of a .jsonl and where they stand; a line that holds no object stays a line."""
    for where, line in located_lines(path):
        if line.strip():
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{where}: not JSON ({error}).") from None
            yield where, entry if isinstance(entry, dict) else line


def _key(entry: Any, column: Column) -> str | None:
    """The key of an object that holds a column."""
    names = column.names if column.chosen is None else (column.chosen,)
    return next((name for name in names if isinstance(entry, dict) and name in entry), None)


def _cells(lines: Iterator[Line], columns: Columns, comma: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records of a CSV or TSV."""
    where, first = next(lines)
    ahead = deque([(where, first)])
    mark = max(",;\t", key=lambda mark: len(next(csv.reader([first], delimiter=mark)))) if comma else "\t"
    heading = [cell.strip() for cell in next(csv.reader([first], delimiter=mark), [])]
    places = _by_number(heading, columns, where)
    header = places is None and (comma or _is_header(heading, columns))
    rows: Iterator[tuple[str, list[str]]]
    if not comma and not header:  # as it stands
        rows = ((at, line.split(mark)) for at, line in _chained(ahead, lines))
    else:
        rows = _records(ahead, lines, mark, lenient=not comma)
    if header:
        where, names = next(rows)
        heading = [cell.strip() for cell in names]
        places = _by_name(heading, columns, where)
    elif places is None:
        heading = [name for name, column in columns.items() if column.needed]
        places = {name: i for i, name in enumerate(heading)}
    for where, cells in rows:
        if header and cells in ([], [""]):
            continue  # an empty line
        if len(cells) != len(heading):
            wanted = f"{len(heading)} columns" + (f", {', '.join(heading)}," if len(heading) < 9 else "")
            raise DataError(f"{where}: {wanted} are needed; found {len(cells)}.")
        yield where, {name: cells[i] for name, i in places.items()}


def _records(
    ahead: deque[Line], lines: Iterator[Line], mark: str, lenient: bool
) -> Iterator[tuple[str, list[str]]]:
    """Records by the rules of the csv module, each with where it begins.

    A lenient one is read without regard to quotes if by the rules it is no record as wide as the first, or if
    each of the several lines it would take is as wide as that.
    """
    width = 0
    while True:
        taken: list[Line] = []
        try:
            cells = next(csv.reader(_taking(ahead, lines, taken), delimiter=mark, strict=True))
        except StopIteration:
            return
        except csv.Error as error:
            cells, why = [], str(error)
            if not lenient or not width:
                closed = "end of data" not in why
                what = why if closed else f"a quote opens, and none closes within {LONGEST:,} characters"
                raise DataError(f"{taken[0][0]}: not CSV ({what}).") from None
        where, line = taken[0]
        apart = [len(text.split(mark)) == width for _, text in taken]
        if lenient and width and (len(cells) != width or (len(taken) > 1 and all(apart))) and line:
            cells = line.split(mark)
            ahead.extendleft(reversed(taken[1:]))
        width = width or len(cells)
        yield where, cells


def _taking(ahead: deque[Line], lines: Iterator[Line], taken: list[Line]) -> Iterator[str]:
    """Lines for the csv module, which are noted as taken; not more than a record can have."""
    size = 0
    for line in _chained(ahead, lines):
        taken.append(line)
        size += len(line[1]) + 1
        yield line[1] + "\n"
        if size > LONGEST:
            return


def _chained(ahead: deque[Line], lines: Iterator[Line]) -> Iterator[Line]:
    """Lines that were read already, then the others."""
    while ahead:
        yield ahead.popleft()
    while line := next(lines, None):  # "yield from" would end the iterator with this one
        yield line


def _is_header(heading: list[str], columns: Columns) -> bool:
    """Whether a first line has the names of columns."""
    lower = {name.lower() for name in heading}
    heads = [column.names for column in columns.values() if column.heads]
    return any(column.chosen for column in columns.values()) or all(lower & set(names) for names in heads)


def _by_number(heading: list[str], columns: Columns, where: str) -> dict[str, int] | None:
    """The place of each column, if a user has given numbers and no header has them as names."""
    chosen = {name: column.chosen for name, column in columns.items() if column.chosen}
    if not any(number.isdecimal() and number not in heading for number in chosen.values()):
        return None
    for name, column in columns.items():
        number = chosen.get(name, "1" if not column.needed else "")
        if not number.isdecimal() or not 1 <= int(number) <= len(heading):
            got = f"got {number}" if number else "it is missing"
            raise DataError(
                f"{where}: without a header {column.option} must be the number of a column, from 1 to "
                f"{len(heading)}; {got}."
            )
    return {name: int(number) - 1 for name, number in chosen.items()}


def _by_name(heading: list[str], columns: Columns, where: str) -> dict[str, int]:
    """The place of each column that the header has; one that is needed must be there."""
    lower = [name.lower() for name in heading]
    places = {}
    for name, column in columns.items():
        names = column.names if column.chosen is None else (column.chosen,)
        found = [i for i, one in enumerate(heading) if one in names]
        found = found or [i for i, one in enumerate(lower) if one in [each.lower() for each in names]]
        if len(found) > 1:
            raise DataError(f"{where}: the header has the column {heading[found[0]]!r} {len(found)} times.")
        if found:
            places[name] = found[0]
        elif column.needed or column.chosen:
            options = " and ".join(one.option for one in columns.values() if one.needed)
            raise DataError(
                f"{where}: the header must have {_wanted(columns)}; found {', '.join(map(repr, heading))}. "
                f"{options} say what columns are called."
            )
    return places


def _wanted(columns: Columns) -> str:
    """ "text" (or "sentence") and "label"."""
    parts = []
    for column in columns.values():
        if column.needed or column.chosen:
            first, *others = (column.chosen,) if column.chosen else column.names
            parts.append(f'"{first}"' + "".join(f' (or "{other}")' for other in others))
    return ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + parts[-1]
