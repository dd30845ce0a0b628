"""Text files line by line, plain or gzip, read as a stream.

Strict UTF-8; only "\\n" and "\\r\\n" end a line (Unicode has other line breaks, and a corpus may contain
them). A file that cannot be read raises a DataError that names the file and the line.
"""

import gzip
import os
import stat
import sys
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import IO, cast

from regard.core.files import check_regular

LONGEST = 65_536  # bytes of a line
MOST = 1 << 20  # bytes of a text that is read at once
PATIENCE = 10.0  # seconds to wait for what is written into a pipe


class DataError(ValueError):
    """Data that cannot be used; the message names the file, the line and the problem."""


def lines(path: str | Path) -> Iterator[str]:
    """Read the lines of a plain or .gz file, without line ends; an empty file is an error."""
    return (line for _, line in located_lines(path))


def located_lines(path: str | Path) -> Iterator[tuple[str, str]]:
    """The lines of a file, each with the place where it stands: the file and the number of the line."""
    path, number = Path(path), 0
    with opened(path, lambda: f"line {number}") as file:
        for where, line in numbered_lines(file, str(path)):
            number += 1
            if "\0" in line:
                at = len(line.partition("\0")[0].encode()) + 1
                raise DataError(f"{where}: a NUL byte at byte {at}. The text must be UTF-8.")
            yield where, line
    if not number:
        raise DataError(f"{path}: the file is empty.")


def check_no_pipe(path: str | Path, who: str = "training") -> None:
    """Refuse a pipe in the place of a file that is read more than once; it may have no writer, too."""
    if Path(path).is_fifo():
        raise DataError(f"{path}: this is a pipe, and {who} reads its files more than once.")


@contextmanager
def opened(path: Path, place: Callable[[], str] | None = None) -> Iterator[IO[bytes]]:
    """A plain or .gz file to read; a DataError says what goes wrong, and the `place` in a broken .gz."""
    try:
        if path.is_dir():
            raise DataError(f"{path}: a file is needed, and this is a folder.")
        with _written(path) as raw, gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw as file:
            yield cast(IO[bytes], file)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        after = "" if place is None else f", after {place()}"
        raise DataError(f"{path}{after}: the gzip data is broken ({error}).") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from None


def _written(path: Path) -> IO[bytes]:
    """A file, open to read; DataError if it is a pipe into which nobody writes for `PATIENCE` seconds."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe would wait for a writer
    if stat.S_ISFIFO(os.fstat(handle).st_mode) and not select([handle], [], [], PATIENCE)[0]:
        os.close(handle)
        raise DataError(f"{path}: this is a pipe, and nothing was written into it for {PATIENCE:g} seconds.")
    os.set_blocking(handle, True)
    return os.fdopen(handle, "rb")


def whole_text(path: str | Path, what: str) -> str:
    """The text of a file that is read at once, as a story, without byte order mark; "-" is standard input."""
    named = "standard input" if str(path) == "-" else str(path)
    if str(path) == "-":
        raw = sys.stdin.buffer.read(MOST + 1)
    else:
        try:
            check_regular(path)
        except FileNotFoundError:
            raise DataError(f"{path}: there is no such file.") from None
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from None
        with opened(Path(path)) as file:
            raw = file.read(MOST + 1)
    if len(raw) > MOST:
        raise DataError(f"{named}: {what} of more than {MOST:,} bytes.")
    return decoded(raw.removeprefix(BOM_UTF8), named)


def numbered_lines(
    file: IO[bytes], name: str, note: Callable[[DataError], None] | None = None
) -> Iterator[tuple[str, str]]:
    """The lines of an open file of this name, each with the place where it stands.

    A line that is too long or no text raises DataError, or, if there is a `note` to hear of it, is empty.
    """
    number = 0
    while raw := file.readline(LONGEST + 3):
        number += 1
        where = f"{name}, line {number}"
        try:
            text = _text(raw, where, first=number == 1)
        except DataError as error:
            if note is None:
                raise
            note(error)
            text, rest = "", raw
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(1 << 20)
        yield where, text


def _text(raw: bytes, where: str, first: bool) -> str:
    """One line as text, without its end; the first also without a byte order mark."""
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if first:
        raw = raw.removeprefix(BOM_UTF8)
    if len(raw) > LONGEST:
        raise DataError(f"{where}: more than {LONGEST:,} bytes. A line is one sentence: split or remove it.")
    return decoded(raw, where)


def decoded(raw: bytes, where: str) -> str:
    """Bytes as text; DataError unless they are UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"invalid UTF-8 at byte {error.start + 1} (0x{raw[error.start]:02x})"
        raise DataError(f"{where}: {what}. Convert the file to UTF-8.") from None
