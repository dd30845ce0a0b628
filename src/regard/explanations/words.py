"""From tokens to words: the score of a word is the sum of the scores of its tokens."""

from collections.abc import Sequence

from torch import Tensor

from regard.core.errors import ShapeError
from regard.data.segments import by_word


def to_words(scores: Tensor, words: Sequence[Sequence[int]]) -> list[Tensor]:
    """Scores of tokens (b, n) to scores of words, a tensor for each text, given the word of each token.

    `regard.data.segments` has these, as `word_of`; tokens beyond the given ones (padding) are left out.
    """
    if len(words) != len(scores) or any(len(of) > scores.shape[-1] for of in words):
        raise ShapeError(
            f"words must be {len(scores)} lists of at most {scores.shape[-1]} numbers, as scores are "
            f"{tuple(scores.shape)}; got {len(words)} of {[len(of) for of in words]}."
        )
    return [by_word(row[None, : len(of)], of, [0])[0] for row, of in zip(scores, words, strict=True)]
