"""Documents: sentences with the sentences before them, as one text of several lines; the last is what counts.

    "The dog is asleep.\\nIt is old."

A file of documents has one sentence per line; an empty line, or one that is the given boundary, ends a
document.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

from regard.core.tokens import EOS
from regard.data.segments import Segments, Span
from regard.data.tokenizer import Tokenizer


class Window:
    """Called with line after line: each with the `context` lines before it in its document.

    "" for a line that ends a document. A line of its own never has a line break.
    """

    def __init__(self, context: int, boundary: str = ""):
        self.before: deque[str] = deque(maxlen=context)
        self.boundary = boundary.strip()

    def __call__(self, line: str) -> str:
        if line.strip() in ("", self.boundary):
            self.before.clear()
            return ""
        flat = " ".join(line.splitlines())
        text = "\n".join([*self.before, flat])
        self.before.append(flat)
        return text


def windows(pairs: Iterable[tuple[str, str]], context: int, boundary: str = "") -> Iterator[tuple[str, str]]:
    """Pairs (source, target) of documents, each source with the sources before it; ends of documents are
    left out."""
    window = Window(context, boundary)
    for source, target in pairs:
        text = window(source)
        if text:
            yield text, target


def last_lines(text: str, context: int) -> str:
    """The last line of a text with the `context` lines before it."""
    return "\n".join(text.split("\n")[-(context + 1) :])


class LineTokenizer(Tokenizer):
    """The same tokenizer, with EOS in the place of every line break.

    The last line and the `context` lines before it have tokens; if the last has no words, nothing has any.
    """

    def __init__(self, plain: Tokenizer, context: int):
        super().__init__(plain.inner, plain.kind)
        self.context = context

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return [ids for ids, _ in self.encode_spans(texts)]

    def encode_spans(self, texts: Sequence[str]) -> list[tuple[list[int], list[Span]]]:
        read = [last_lines(text, self.context) if text.split("\n")[-1].strip() else "" for text in texts]
        lines = [text.split("\n") for text in read]
        found = iter(super().encode_spans([line for each in lines for line in each]))
        return [
            _joined([(line, *next(found)) for line in each], len(text) - len(last))
            for text, last, each in zip(texts, read, lines, strict=True)
        ]


def _joined(lines: Sequence[tuple[str, list[int], list[Span]]], begin: int) -> tuple[list[int], list[Span]]:
    ids, spans, at = list[int](), list[Span](), begin
    for line, inner, where in lines:
        if at > begin:
            ids.append(EOS)
            spans.append((at - 1, at))
        ids += inner
        spans += [(at + start, at + stop) for start, stop in where]
        at += len(line) + 1
    return ids, spans


def remaining_lines(whole: Segments, words: Collection[int]) -> tuple[str, list[Span]]:
    """`Segments.remaining`, with every line break kept: no line runs into the next."""
    starts, gone = [start for start, _ in whole.spans], set(words)
    if not starts:
        return whole.text, []
    kept, spans = whole.text[: starts[0]], list[Span]()
    for number, (start, stop) in enumerate(pairwise([*starts, len(whole.text)])):
        piece = whole.text[start:stop]
        if number in gone:
            kept = kept.rstrip(" ") + "\n" * piece.count("\n") if "\n" in piece else kept
            continue
        spans.append((len(kept), len(kept) + len(whole.words[number])))
        kept += piece
    return kept.rstrip(" "), spans
