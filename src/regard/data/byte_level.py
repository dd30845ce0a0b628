"""Byte-level vocabularies: the bytes of a token, and the text of bytes.

In such a vocabulary every byte is written as a printable character: the printable bytes of Latin-1 as
themselves, the others, in order, as U+0100 and on.
"""

import codecs
from collections.abc import Iterable

Span = tuple[int, int]  # characters [from, to)
BYTES = 256  # each is a token, so that nothing is unknown
REPLACEMENT = "�"
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHERS = [byte for byte in range(BYTES) if byte not in PRINTABLE]
BYTE_OF = {chr(byte): byte for byte in PRINTABLE} | {chr(0x100 + k): byte for k, byte in enumerate(OTHERS)}


def raw_bytes(token: str) -> bytes:
    """The bytes of a token, given as the vocabulary writes it."""
    return bytes([BYTE_OF[character] for character in token])


def join_bytes(parts: Iterable[bytes]) -> tuple[str, list[Span]]:
    """Join parts of UTF-8 to a text; also the span of characters that each part has bytes of.

    Invalid bytes become �.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    shown, spans = list[str](), list[Span]()
    at, incomplete = 0, b""  # complete characters so far, and the bytes of an incomplete one
    for part in parts:
        text = decoder.decode(part)
        # the incomplete character stays so: its � belongs to the parts before alone
        broken = (
            bool(incomplete)
            and text[:1] == REPLACEMENT
            and not (incomplete + part).startswith(REPLACEMENT.encode())
        )
        start = at + broken
        at += len(text)
        incomplete = decoder.getstate()[0]
        stop = at + bool(incomplete)
        spans.append((start if part else stop, stop))
        shown.append(text)
    return "".join([*shown, decoder.decode(b"", final=True)]), spans
