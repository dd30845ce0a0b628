"""Texts as the tokens a model reads, and which tokens are parts of which word.

Words are those of a dependency tree, or those of `regard.data.segments`. A token is a part of every word that
it shares a character with: in a tree it may be a part of two ("don" of "do" and "n't"). A token of nothing
but white space is a part of the word before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.analyses.conllu import Sentence
from regard.data import Tokenizer
from regard.data.segments import Span, segments


@dataclass(frozen=True, eq=False)
class TokenizedText:
    """A text of n tokens and w words."""

    tokens: list[int]  # (n,)
    words: Tensor  # (w, n), bool: which tokens are parts of which word
    sentence: Sentence | None = None  # the tree of the same w words, if there is one

    def mean(self, states: Tensor) -> Tensor:
        """States of tokens (..., n, d) to those of words (..., w, d): the mean over a word's tokens."""
        parts = self.words.to(states)
        return (parts / parts.sum(-1, keepdim=True).clamp(min=1)) @ states

    def by_word(self, weights: Tensor) -> Tensor:
        """Weights between tokens (..., n, n) to weights between words (..., w, w).

        The weights of a word are the sum over its tokens as keys and the mean over its tokens as queries
        (Clark et al. 2019, arXiv:1906.04341, §4); a token of two words is half of each.
        """
        parts = self.words.to(weights)
        queries = parts / parts.sum(-1, keepdim=True).clamp(min=1)
        keys = parts / parts.sum(-2, keepdim=True).clamp(min=1)
        return queries @ weights @ keys.mT


def tokenize(tokenizer: Tokenizer, texts: Sequence[str | Sentence]) -> list[TokenizedText]:
    """Tokenize texts or trees; a tokenizer of words reads the words of a tree with spaces between them."""
    return [_tokenized(tokenizer, text) for text in texts]


def _tokenized(tokenizer: Tokenizer, text: str | Sentence) -> TokenizedText:
    if isinstance(text, str):
        found, sentence = segments(tokenizer, text), None
    else:
        found, sentence = segments(tokenizer, *_written(text, tokenizer.kind == "word")), text
    words, tokens = (torch.tensor(spans).long().view(-1, 2) for spans in (found.spans, found.token_spans))
    parts = (words[:, None, 0] < tokens[:, 1]) & (tokens[:, 0] < words[:, None, 1])  # share a character
    if found.words:
        spaces = (~parts.any(0)).nonzero().flatten()
        parts[torch.tensor(found.word_of).long()[spaces], spaces] = True
    return TokenizedText(found.tokens, parts, sentence)


def _written(sentence: Sentence, spaced: bool) -> tuple[str, Sequence[Span]]:
    """The text of a tree and the spans of its words."""
    if not spaced:
        return sentence.text, sentence.spans
    spans: list[Span] = []
    start = 0
    for word in sentence.words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(sentence.words), spans
