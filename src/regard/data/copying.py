"""Ids for unknown words, so that a model can copy them.

    Anna met Bertrand , Bertrand ran     →   V  met  V+1  ,  V+1  ran          (a vocabulary of size V)

The k-th distinct unknown word of a source, from 0, has the id V + k, in the source and in its target. Unknown
words of a target that do not occur in the source are UNK. With byte-pair encoding nothing is unknown.
"""

from collections.abc import Sequence
from typing import NamedTuple

from regard.core.tokens import UNK
from regard.data.tokenizer import Tokenizer


class SourceIds(NamedTuple):
    """The ids of a text, and its unknown words in the order of their ids."""

    ids: list[int]
    unknown: list[str]


def numbered(tokenizer: Tokenizer, texts: Sequence[str]) -> list[SourceIds]:
    """Encode sources; unknown words get ids beyond the vocabulary."""
    found = []
    for ids, words in _with_unknown(tokenizer, texts):
        known = {word: len(tokenizer) + k for k, word in enumerate(dict.fromkeys(words.values()))}
        found.append(
            SourceIds([known[words[i]] if i in words else t for i, t in enumerate(ids)], list(known))
        )
    return found


def numbered_like(
    tokenizer: Tokenizer, texts: Sequence[str], unknown: Sequence[Sequence[str]]
) -> list[list[int]]:
    """Encode targets; unknown words have the ids that they have in their sources."""
    found = []
    for (ids, words), theirs in zip(_with_unknown(tokenizer, texts), unknown, strict=True):
        known = {word: len(tokenizer) + k for k, word in enumerate(theirs)}
        found.append([known.get(words.get(i, ""), t) for i, t in enumerate(ids)])
    return found


def _with_unknown(tokenizer: Tokenizer, texts: Sequence[str]) -> list[tuple[list[int], dict[int, str]]]:
    """The ids of each text, and its unknown words by position."""
    if tokenizer.kind == "bpe":
        return [(ids, {}) for ids in tokenizer.encode_many(texts)]
    found = []
    for text, (ids, spans) in zip(texts, tokenizer.encode_spans(texts), strict=True):
        found.append((ids, {i: text[slice(*spans[i])] for i, token in enumerate(ids) if token == UNK}))
    return found
