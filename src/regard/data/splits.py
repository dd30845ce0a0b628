"""Which examples of a file are held out to validate on, where no file for that was given.

every k-th example, k = N / held_out and at least 10 (of fewer than ten examples, every second)
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

from regard.data.text import DataError

T = TypeVar("T")
Part = Literal["train", "valid"]
_counts: dict[tuple[tuple[str, int, int], ...], int] = {}  # of files as they are now: reading takes long


def held_out(
    read: Callable[[], Iterator[T]], files: list[str], part: Part, most: int, what: str
) -> Iterator[T]:
    """The examples of one part of what `read` reads from files; about `most` are held out."""
    stats = [(file, Path(file).stat()) for file in files if Path(file).exists()]
    key = tuple((file, stat.st_mtime_ns, stat.st_size) for file, stat in stats)
    if key not in _counts:
        _counts[key] = sum(1 for _ in read())
    count = _counts[key]
    if count < 2:
        raise DataError(f"{files[0]} has {count} {what}; at least 2 are needed, one of them held out.")
    step = stride(count, most)
    return (one for i, one in enumerate(read()) if (i % step == 0) == (part == "valid"))


def stride(count: int, most: int) -> int:
    """Every so many examples one is held out, about `most` of `count`."""
    return max(10 if count >= 10 else 2, count // most)
