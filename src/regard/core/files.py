"""Files that are whole or not there: written beside their place and renamed into it; and how files are read.

What is read may have been made by anybody: a file that is no plain file, that is too large, or whose JSON is
nested too deeply, raises an OSError or a ValueError at once.
"""

import errno
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DRAFT = ".draft"  # how the names of files end that are not whole yet
LARGEST = 1 << 28  # bytes of a text file that is read at once


@contextmanager
def beside(path: str | Path) -> Iterator[Path]:
    """A path to write a file or a folder at; it takes the place of `path` if the block ends well.

    An OSError without a file name, as that of a full disk, gets the name of `path`.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}{DRAFT}")
    try:
        yield draft
        for file in sorted(draft.rglob("*")) if draft.is_dir() else [draft]:
            _flush(file)
        if draft.is_dir() and path.is_dir():
            shutil.rmtree(path)
        draft.replace(path)
        _flush(path.parent)
    except OSError as error:
        if error.errno is None or not (error.filename is None or str(error.filename).startswith(str(draft))):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        _remove(draft)


def remove_drafts(folder: Path) -> None:
    """Remove what writers that were killed left in a folder; nobody else may be writing into it."""
    for draft in folder.glob(f".*{DRAFT}"):
        _remove(draft)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file in UTF-8, whole or not at all."""
    with beside(path) as draft:
        draft.write_text(text, encoding="utf-8")
    return Path(path)


def check_regular(path: str | Path, largest: int | None = None) -> int:
    """The size of a file in bytes; OSError unless it is a plain file that is no larger than this."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # that of a pipe would wait for a writer
    try:
        found = os.fstat(handle)
    finally:
        os.close(handle)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    if largest is not None and found.st_size > largest:
        raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes, more than {largest:,}", str(path))
    return found.st_size


def read_text(path: str | Path, largest: int = LARGEST) -> str:
    """The text of a file in UTF-8; OSError if it is not a regular file, or larger than `largest` bytes."""
    check_regular(path, largest)
    return Path(path).read_text(encoding="utf-8")


def read_json(path: str | Path) -> Any:
    """What a JSON file holds; ValueError if it is none, or is nested too deeply."""
    return parse_json(read_text(path))


def parse_json(text: str) -> Any:
    """What a JSON text holds; ValueError if it is none, or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _flush(path: Path) -> None:
    """Onto the disk, so that not even a loss of power leaves half of it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
