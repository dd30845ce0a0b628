"""From pieces to words: weights between tokens as weights between the words they are parts of."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.tokens import UNK
from regard.data import Tokenizer


def word_of(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[int]:
    """For each token the number of the word it ends in, words being what white space separates."""
    known = [token if token < len(tokenizer) else UNK for token in tokens]  # a copied word is one word too
    counts = [len(tokenizer.decode(known[: i + 1]).split()) for i in range(len(known))]
    return [max(count - 1, 0) for count in counts]


def by_word(weights: Tensor, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """Weights (m, n) between tokens to weights between words, given the word of each token.

    What is looked at is added up, those who look are averaged; rows beyond the target's tokens (its end) are
    left out.
    """
    across = torch.zeros(len(source), max(source, default=-1) + 1, dtype=weights.dtype, device=weights.device)
    across[range(len(source)), list(source)] = 1
    down = torch.zeros(max(target, default=-1) + 1, len(target), dtype=weights.dtype, device=weights.device)
    down[list(target), range(len(target))] = 1
    down = down / down.sum(-1, keepdim=True).clamp(min=1)
    return down @ weights[: len(target)] @ across
