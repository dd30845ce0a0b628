"""Text of tokens: what a model reads may hold anything; what is shown is text and nothing else."""

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice

from regard.core.errors import ShapeError

JOINER = "\u200d"  # zero width joiner: 👩 + joiner + 🚀 is one picture


def shown(token: str) -> str:
    """A token as it can be shown: control characters by their pictures (NUL is ␀), broken ones by �."""
    text = str(token)
    text = text if text.isprintable() else "".join(map(_shown, text))
    return text if not text or text.strip() else "␣" * len(text)


def labels(name: str, tokens: Sequence[str] | None, size: int) -> tuple[str, ...]:
    """`size` tokens as they are shown; without any, they are counted from 1."""
    if tokens is None:
        return tuple(str(i + 1) for i in range(size))
    if isinstance(tokens, str):
        raise TypeError(f"{name} must be a sequence of tokens; got one string. Split it first.")
    if len(tokens) != size:
        raise ShapeError(f"{name} must have {size} tokens; got {len(tokens)}.")
    return tuple(map(shown, tokens))


def cropped(text: str, most: int = 18) -> str:
    """At most `most` letters; a letter keeps its accents, an emoji its parts."""
    letters = list(islice(_letters(text), most + 1))
    return text if len(letters) <= most else "".join(letters[: most - 1]) + "…"


def right_to_left(tokens: Sequence[str]) -> bool:
    """Whether the first letter that has a direction is written from right to left."""
    for char in (char for token in tokens for char in token):
        if (kind := unicodedata.bidirectional(char)) in ("L", "R", "AL"):
            return kind != "L"
    return False


def _shown(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return "�" if unicodedata.category(char) in ("Cc", "Cs") else char


def _letters(text: str) -> Iterator[str]:
    """Letters with their marks, close enough to grapheme clusters (UAX 29) for a crop."""
    letter = ""
    for char in text:
        if letter and not (
            unicodedata.category(char).startswith("M")
            or JOINER in (char, letter[-1])
            or "\U0001f3fb" <= char <= "\U0001f3ff"  # tones of skin
            or "\U000e0020" <= char <= "\U000e007f"  # tags, of the flags of Scotland and Wales
            or (len(letter) == 1 and _regional(letter) and _regional(char))  # the flags of countries
        ):
            yield letter
            letter = ""
        letter += char
    if letter:
        yield letter


def _regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
