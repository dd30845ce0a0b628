"""Byte-level vocabularies: which bytes a piece stands for, and bytes as text again.

A vocabulary is text, so every byte is written as a character that can be seen: printable characters of
Latin-1 stand for themselves, the other bytes, in order, for U+0100 and on.
"""

import codecs
from collections.abc import Iterable
from functools import cache

Span = tuple[int, int]  # characters [from, to)
BYTES = 256  # each is a piece of the vocabulary, so that nothing is unknown
REPLACEMENT = "�"


def raw_bytes(piece: str) -> bytes:
    """The bytes that a piece of a byte-level vocabulary stands for."""
    table = _byte_of()
    return bytes([table[character] for character in piece])


def join_bytes(parts: Iterable[bytes]) -> tuple[str, list[Span]]:
    """Parts of UTF-8 joined to a text, and the characters that each has bytes of; what is none is �."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    shown: list[str] = []
    spans: list[Span] = []
    at, open_ = 0, b""  # how many characters are finished, and the bytes of the one that is not
    for part in parts:
        text = decoder.decode(part)
        # the character that was open is broken off: it belongs to the parts before alone
        broken = (
            bool(open_) and text[:1] == REPLACEMENT and not (open_ + part).startswith(REPLACEMENT.encode())
        )
        start = at + broken
        at += len(text)
        open_ = decoder.getstate()[0]
        stop = at + bool(open_)
        spans.append((start if part else stop, stop))
        shown.append(text)
    return "".join([*shown, decoder.decode(b"", final=True)]), spans


@cache
def _byte_of() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(BYTES) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + k): byte for k, byte in enumerate(others)}
