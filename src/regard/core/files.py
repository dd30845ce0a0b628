"""Files that are whole or not there: written beside their place and renamed into it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def beside(path: str | Path) -> Iterator[Path]:
    """A path to write a file or a folder at; it takes the place of `path` if the block ends well."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield draft
        for file in sorted(draft.rglob("*")) if draft.is_dir() else [draft]:
            _flush(file)
        if draft.is_dir() and path.is_dir():
            shutil.rmtree(path)
        draft.replace(path)
        _flush(path.parent)
    finally:
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file in UTF-8, whole or not at all."""
    with beside(path) as draft:
        draft.write_text(text, encoding="utf-8")
    return Path(path)


def _flush(path: Path) -> None:
    """Onto the disk, so that not even a loss of power leaves half of it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
