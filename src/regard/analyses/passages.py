"""Passages: texts as the tokens a model reads, and which tokens are parts of which word.

Words are those of a tree, or what white space separates. A token may be a part of two words ("don" of "do"
and "n't"), and a word has as many tokens as it shares a character with.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.analyses.conllu import Sentence, Span
from regard.data import Tokenizer
from regard.data.labelled import places


@dataclass(frozen=True, eq=False)
class Passage:
    """A text of n tokens and w words."""

    tokens: list[int]  # (n,)
    words: Tensor  # (w, n), bool: which tokens are parts of which word
    sentence: Sentence | None = None  # where there is a tree: of the same w words

    def mean(self, states: Tensor) -> Tensor:
        """States of tokens (..., n, d) to those of words (..., w, d): the mean of a word's tokens."""
        parts = self.words.to(states)
        return (parts / parts.sum(-1, keepdim=True).clamp(min=1)) @ states

    def by_word(self, weights: Tensor) -> Tensor:
        """Weights between tokens (..., n, n) to weights between words (..., w, w).

        What is looked at is added up, those who look are averaged (Clark et al. 2019, arXiv:1906.04341, §4);
        a token of two words is half of each.
        """
        parts = self.words.to(weights)
        looking = parts / parts.sum(-1, keepdim=True).clamp(min=1)
        seen = parts / parts.sum(-2, keepdim=True).clamp(min=1)
        return looking @ weights @ seen.mT


def passages(tokenizer: Tokenizer, texts: Sequence[str | Sentence]) -> list[Passage]:
    """Texts or trees as passages; a tokenizer of words reads the words of a tree with spaces between them."""
    written = [_written(text, tokenizer.kind == "word") for text in texts]
    ahead = " " if tokenizer.kind == "bpe" else ""  # as Tokenizer.encode_many does
    found = tokenizer.inner.encode_batch(
        [ahead + text if text else "" for text, _ in written], add_special_tokens=False
    )
    return [
        Passage(
            list(one.ids),
            _parts([(a - len(ahead), b - len(ahead)) for a, b in one.offsets], spans),
            text if isinstance(text, Sentence) else None,
        )
        for one, text, (_, spans) in zip(found, texts, written, strict=True)
    ]


def _written(text: str | Sentence, spaced: bool) -> tuple[str, Sequence[Span]]:
    if isinstance(text, str):
        return text, places(text)
    if not spaced:
        return text.text, text.spans
    spans: list[Span] = []
    at = 0
    for word in text.words:
        spans.append((at, at + len(word)))
        at += len(word) + 1
    return " ".join(text.words), spans


def _parts(tokens: Sequence[Span], words: Sequence[Span]) -> Tensor:
    """Which tokens share a character with which word: (w, n)."""
    ours, theirs = (torch.tensor(spans, dtype=torch.long).view(-1, 2) for spans in (words, tokens))
    return (ours[:, None, 0] < theirs[:, 1]) & (theirs[:, 0] < ours[:, None, 1])
