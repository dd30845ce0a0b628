"""Running text: a file of any size in blocks of characters, plain or gzip, for language models.

Nothing is cut off and no line is too long: "\\r\\n" becomes "\\n", a byte order mark at the beginning is left
out, and all else stays as it is. A block ends behind the last line end in it, or else behind the last white
space, so that few words are cut in two.
"""

import codecs
from collections.abc import Iterator
from pathlib import Path

from regard.data.text_lines import DataError, opened

BLOCK = 4096  # characters of a block
READ = 1 << 16  # bytes that are read at once


def blocks(path: str | Path, size: int = BLOCK, *stretches: tuple[int, int]) -> Iterator[str]:
    """The text of a file, or the characters start to stop (not included) of some stretches of it, in their
    order, in blocks of at most `size`; no block is of two stretches."""
    held, at, rest = "", 0, list(stretches)
    for text in _decoded(Path(path)):
        before, at = at, at + len(text)
        while True:
            start, stop = rest[0] if rest else (0, None)
            held += text[max(0, start - before) : None if stop is None else max(0, stop - before)]
            ended = stop is not None and at >= stop
            while len(held) > size:
                cut = max(held.rfind("\n", 0, size), 0) or max(held.rfind(" ", 0, size), 0) or size - 1
                yield held[: cut + 1]
                held = held[cut + 1 :]
            if not ended:
                break
            if held:
                yield held
            held = ""
            del rest[0]
            if not rest:
                return
    if held:
        yield held


def beginning(path: str | Path, most: int) -> str:
    """The text of a file, no more than so many characters of it and one block."""
    found, count = [], 0
    for block in blocks(path):
        found.append(block)
        count += len(block)
        if count >= most:
            break
    return "".join(found)


def count_characters(path: str | Path) -> int:
    """The characters of a file; an empty one is an error."""
    return sum(map(len, _decoded(Path(path))))


def _decoded(path: Path) -> Iterator[str]:
    """The text of a file, piece by piece."""
    decoder, done, ended = codecs.getincrementaldecoder("utf-8-sig")(), 0, ""
    with opened(path, lambda: f"byte {done:,}") as file:
        while True:
            raw = file.read(READ)
            try:
                text = ended + decoder.decode(raw, final=not raw)
            except UnicodeDecodeError as error:
                what = f"invalid UTF-8 near byte {done + error.start + 1:,}"
                raise DataError(f"{path}: {what}. Convert the file to UTF-8.") from None
            if "\0" in text:
                raise DataError(f"{path}: a NUL character near byte {done + 1:,}. It is no text.")
            done += len(raw)
            ended = "\r" if raw and text.endswith("\r") else ""  # the "\n" may come with the next piece
            if found := text[: len(text) - len(ended)].replace("\r\n", "\n"):
                yield found
            if not raw:
                break
    if not done:
        raise DataError(f"{path}: the file is empty.")
