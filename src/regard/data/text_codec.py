"""Running text as tokens and back: what a language model reads and writes, line ends included.

bpe, character   every character is in a token, line ends too; decode(encode(text)) is the text
word             words between white space; the end of a line is the token EOS, other white space is lost

No space is put before a text, unlike in `Tokenizer`, where a text is a sentence: here it goes on from
another.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.core.tokens import BOS, EOS, PAD, UNK
from regard.data.tokenizer import Kind, Tokenizer


class TextCodec:
    """A tokenizer for running text."""

    def __init__(self, tokenizer: Tokenizer):
        tokenizer.ahead = ""
        self.tokenizer = tokenizer

    @classmethod
    def load(cls, path: Path) -> "TextCodec":
        """That in a file."""
        return cls(Tokenizer.load(path))

    def __len__(self) -> int:
        return len(self.tokenizer)

    @property
    def kind(self) -> Kind:
        """How text is cut."""
        return self.tokenizer.kind

    @property
    def new_line(self) -> int:
        """The last token of a line end, which a text without a prompt begins after."""
        found = self.encode("\n")
        return EOS if not found or found[-1] == UNK else found[-1]

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return self.encode_many([text])[0]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text."""
        if self.kind != "word":
            return self.tokenizer.encode_many(texts)
        lines = [text.split("\n") for text in texts]
        encoded = iter(self.tokenizer.encode_many([line for several in lines for line in several]))
        return [_joined([next(encoded) for _ in several]) for several in lines]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens."""
        if self.kind == "bpe":
            return str(self.tokenizer.inner.decode(list(ids)))
        if self.kind == "character":
            return self.tokenizer.decode(ids)
        return "\n".join(self.tokenizer.decode(line) for line in _lines(ids))

    def unknown(self, text: str) -> list[str]:
        """The characters or words of a text that are not in the vocabulary, each once."""
        if self.kind == "bpe":
            return []
        parts = dict.fromkeys(text if self.kind == "character" else text.split())
        encoded = self.encode_many(list(parts))
        return [part for part, ids in zip(parts, encoded, strict=True) if UNK in ids]


def _joined(lines: Sequence[Sequence[int]]) -> list[int]:
    """Lines of tokens with EOS between them."""
    found = list(lines[0])
    for line in lines[1:]:
        found += [EOS, *line]
    return found


def _lines(ids: Sequence[int]) -> Iterator[list[int]]:
    """The tokens between EOS; PAD and BOS are left out."""
    line: list[int] = []
    for token in ids:
        if token == EOS:
            yield line
            line = []
        elif token not in (PAD, BOS):
            line.append(token)
    yield line
