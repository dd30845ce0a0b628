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
        unknown = list(dict.fromkeys(words.values()))
        found.append(SourceIds(_copied(ids, words, unknown, len(tokenizer)), unknown))
    return found


def numbered_like(
    tokenizer: Tokenizer, texts: Sequence[str], unknown: Sequence[Sequence[str]]
) -> list[list[int]]:
    """Encode targets; unknown words have the ids that they have in their sources."""
    found = zip(_with_unknown(tokenizer, texts), unknown, strict=True)
    return [_copied(ids, words, theirs, len(tokenizer)) for (ids, words), theirs in found]


def _copied(ids: list[int], words: dict[int, str], unknown: Sequence[str], size: int) -> list[int]:
    """The ids, with size + k in the place of the k-th of these unknown words."""
    beyond = {word: size + k for k, word in enumerate(unknown)}
    return [beyond.get(words.get(i, ""), token) for i, token in enumerate(ids)]


def _with_unknown(tokenizer: Tokenizer, texts: Sequence[str]) -> list[tuple[list[int], dict[int, str]]]:
    """The ids of each text, and its unknown words by position."""
    if tokenizer.kind == "bpe":
        return [(ids, {}) for ids in tokenizer.encode_many(texts)]
    return [
        (ids, {i: text[slice(*spans[i])] for i, token in enumerate(ids) if token == UNK})
        for text, (ids, spans) in zip(texts, tokenizer.encode_spans(texts), strict=True)
    ]
