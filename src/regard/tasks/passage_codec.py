"""From a passage and a question to tokens and features, and from tokens back to characters.

Anonymous names ("@entity12") are numbered anew in each example, in the order in which they occur: their
numbers say nothing, and a number that was never seen is none that is unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from regard.data.byte_level import Span
from regard.data.fields import Row
from regard.data.tokenizer import Tokenizer
from regard.data.word_features import word_features

ENTITY = "@entity"
Cut = tuple[list[int], list[Span]]  # the tokens of a text, and where they stand


@dataclass(frozen=True, eq=False)
class EncodedTexts:
    """A passage and a question as tokens, and where the tokens stand."""

    passage: str
    question: str
    tokens: list[int]
    spans: list[Span]  # of the tokens of the passage
    question_tokens: list[int]
    features: list[list[int]]
    question_features: list[list[int]]

    @property
    def fields(self) -> Row:
        """As training reads them."""
        return {
            "passage": self.tokens,
            "question": self.question_tokens,
            "features": self.features,
            "question_features": self.question_features,
        }

    def tokens_of(self, span: Span) -> tuple[int, int] | None:
        """First and last token that a span of characters touches; None if there is none."""
        start, stop = span
        inside = [i for i, (a, b) in enumerate(self.spans) if a < stop and b > start and a < b]
        return (inside[0], inside[-1]) if inside else None

    def characters(self, first: int, last: int) -> Span:
        """The characters from the first to the last of these tokens."""
        return self.spans[first][0], self.spans[last][1]


@dataclass(frozen=True, eq=False)
class PassageCodec:
    """A tokenizer for passages and questions."""

    tokenizer: Tokenizer

    @cached_property
    def entities(self) -> list[int]:
        """The tokens of anonymous names."""
        inner = self.tokenizer.inner
        return sorted(i for piece, i in inner.get_vocab().items() if piece.startswith(ENTITY))

    def encode(self, texts: Sequence[tuple[str, str]]) -> list[EncodedTexts]:
        """Tokens and features of (passage, question) pairs; a passage that comes again is cut once."""
        different = list(dict.fromkeys(chain.from_iterable(texts)))
        cut = dict(zip(different, self.tokenizer.encode_spans(different), strict=True))
        return [self._encoded(one, other, cut[one], cut[other]) for one, other in texts]

    def _encoded(
        self,
        passage: str,
        question: str,
        cut: tuple[list[int], list[Span]],
        asked: tuple[list[int], list[Span]],
    ) -> EncodedTexts:
        words = [passage[a:b] for a, b in cut[1]]
        others = [question[a:b] for a, b in asked[1]]
        tokens, question_tokens = self._renamed(cut[0], words, asked[0], others)
        return EncodedTexts(
            passage, question, tokens, cut[1], question_tokens,
            word_features(words, others), word_features(others, words),
        )  # fmt: skip

    def _renamed(
        self, tokens: list[int], words: list[str], asked: list[int], others: list[str]
    ) -> tuple[list[int], list[int]]:
        """The tokens of both texts, anonymous names numbered as they come."""
        if not self.entities or not any(ENTITY in word for word in words):
            return tokens, asked
        names = dict.fromkeys(
            word.lower() for word in chain(words, others) if word.lower().startswith(ENTITY)
        )
        number = {name: self.entities[i % len(self.entities)] for i, name in enumerate(names)}
        return (
            [number.get(word.lower(), token) for word, token in zip(words, tokens, strict=True)],
            [number.get(word.lower(), token) for word, token in zip(others, asked, strict=True)],
        )
