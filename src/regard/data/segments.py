"""Segments: a text as tokens and as words, and which token belongs to which word. The only such mapping.

Words are what white space separates, white space being what Unicode and the tokenizers call so. Chinese and
Japanese are written without spaces: each of their characters, punctuation included, is a word, and so is what
stands between them. Combining marks stay with their character. A word is never smaller than a token: words
that share a token are one word.

A token belongs to the word of its last character that is not white space; a token of nothing but white space
(or of nothing: BOS, half of a character that was never finished) belongs to the word before it, or to the
first. Where a text has no words, every token has the number 0.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from unicodedata import category

import torch
from torch import Tensor

from regard.data.byte_level import Span as Span
from regard.data.tokenizer import Tokenizer

# Unicode's White_Space. Python's "\s" has \x1c to \x1f too, which separate records, not words.
WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
CHARACTERS = (  # of Chinese and Japanese; Korean has spaces
    "\u2e80-\u2fdf\u2ff0-\u2fff"  # radicals
    "\u3001-\u3029\u3030-\u303f"  # punctuation and iteration marks, without tone marks, which combine
    "\u3041-\u3098\u309b-\u30ff"  # kana, without voicing marks, which combine
    "\u3105-\u312f\u3190-\u3247\u3280-\u4dbf\u4e00-\u9fff"  # Bopomofo, annotations, enclosed forms, Han
    "\uf900-\ufaff\ufe10-\ufe1f\ufe30-\ufe4f"  # compatibility forms
    "\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff9d\uffe0-\uffe5"  # fullwidth punctuation, narrow kana
    "\U00016fe2\U00016fe3\U0001aff0-\U0001afff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
WORD = re.compile(f"[^{WHITE}]+")
PART = re.compile(f"(?P<character>[{CHARACTERS}])|[^{CHARACTERS}]+")
MARKS = "\u200c\u200d\uff9e\uff9f"  # stay with the character before them, as all of category M do
SPACES = "".join(character for character in map(chr, range(0x3001)) if not WORD.match(character))


@dataclass(frozen=True, eq=False)
class Segments:
    """A text of n tokens and w words; positions are those of characters, [from, to)."""

    text: str
    tokens: list[int]  # (n,)
    token_spans: list[Span]  # (n,); of the whole character where a token is a part of one; may be empty
    words: list[str]  # (w,)
    spans: list[Span]  # (w,)
    word_of: list[int]  # (n,): the number of the word of each token, less than w if there are words

    def tokens_of(self, words: Collection[int]) -> list[int]:
        """The positions of the tokens of these words (numbers)."""
        chosen = set(words)
        return [i for i, word in enumerate(self.word_of) if word in chosen]

    def remaining(self, words: Collection[int]) -> tuple[str, list[Span]]:
        """The text without these words (numbers), and the spans of the others in it.

        Each leaves together with the white space after it; the last word also with that before it.
        """
        if not self.spans:
            return self.text, []
        gone, starts = set(words), [start for start, _ in self.spans]
        kept, spans, at = [self.text[: starts[0]]], [], starts[0]
        for number, (start, stop) in enumerate(pairwise([*starts, len(self.text)])):
            if number not in gone:
                kept.append(self.text[start:stop])
                spans.append((at, at + len(self.words[number])))
                at += stop - start
        text = "".join(kept)
        return text.rstrip(SPACES) if len(self.spans) - 1 in gone else text, spans


def segments(tokenizer: Tokenizer, text: str, spans: Sequence[Span] | None = None) -> Segments:
    """The segments of a text that is read; `spans` are its words, if somebody else has split it.

    A word of these that shares its tokens with the word after it may have no token of its own.
    """
    ((tokens, token_spans),) = tokenizer.encode_spans([text])
    return _segments(text, tokens, token_spans, spans)


def segments_of_ids(tokenizer: Tokenizer, ids: Sequence[int], unknown: Sequence[str] = ()) -> Segments:
    """The segments of tokens that a model wrote: their text is what `tokenizer.decode` makes of them.

    Ids beyond the vocabulary are the words `unknown`, which were copied.
    """
    ids = [int(i) for i in ids]
    text, token_spans = tokenizer.decode_spans(ids, unknown)
    return _segments(text, ids, token_spans, None)


def split_words(text: str) -> list[Span]:
    """The spans of the words of a text, whatever the tokenizer."""
    spans: list[Span] = []
    for start, stop in split_at_spaces(text):
        after_character = False  # marks at the beginning of a part belong to the character before it
        for part in PART.finditer(text, start, stop):
            first, last = part.span()
            if after_character and part["character"] is None:
                while first < last and (category(text[first])[0] == "M" or text[first] in MARKS):
                    first += 1
                spans[-1] = (spans[-1][0], first)
            if first < last:
                spans.append((first, last))
            after_character = part["character"] is not None
    return spans


def split_at_spaces(text: str) -> list[Span]:
    """The spans of what stands between white space, in any language."""
    return [found.span() for found in WORD.finditer(text)]


def by_word(weights: Tensor, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """Weights (..., m, n) between tokens to weights between words, given the word of each token.

    The weights of a word are the sum over its tokens as keys and the mean over its tokens as queries. Rows
    beyond the target's tokens (its end) are left out.
    """
    queries, keys = (torch.tensor(list(each), dtype=torch.long) for each in (target, source))
    m, n = (int(each.max()) + 1 if len(each) else 0 for each in (queries, keys))
    queries, keys = queries.to(weights.device), keys.to(weights.device)
    rows = weights[..., : len(queries), :]
    rows = rows.new_zeros(*rows.shape[:-2], m, rows.shape[-1]).index_add(-2, queries, rows)
    rows = rows / queries.bincount(minlength=m).clamp(min=1)[:, None]
    return rows.new_zeros(*rows.shape[:-1], n).index_add(-1, keys, rows)


def _segments(
    text: str, tokens: list[int], token_spans: list[Span], spans: Sequence[Span] | None
) -> Segments:
    spans = _joined(split_words(text), token_spans) if spans is None else list(spans)
    starts = [start for start, _ in spans]
    word_of = [max(bisect_left(starts, stop) - 1, 0) for _, stop in token_spans]
    return Segments(text, tokens, token_spans, [text[a:b] for a, b in spans], spans, word_of)


def _joined(words: list[Span], tokens: list[Span]) -> list[Span]:
    """The words, those that share a token joined into one."""
    starts, stops = [start for start, _ in words], [stop for _, stop in words]
    continued = set[int]()  # words that share a token with the word before them
    for start, stop in tokens:
        continued.update(range(bisect_right(stops, start) + 1, bisect_left(starts, stop)))
    firsts = [i for i in range(len(words)) if i not in continued]
    return [(starts[i], stops[j - 1]) for i, j in pairwise([*firsts, len(words)])]
