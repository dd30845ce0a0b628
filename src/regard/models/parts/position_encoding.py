"""Sentences as vectors: weighted sums of the vectors of their words, weighted by position.

    m = Σ_j l_j ∘ E(w_j)        l_kj = 2(1 − j/J) − 2(k/d)(1 − 2j/J)        for word j of J, coordinate k of d

The sum knows the order of the words, unlike a bag of words. As l is linear in k, it is two weighted bags,
Σ_j (1 − j/J) E(w_j) and Σ_j (1 − 2j/J) E(w_j), which take no memory for single words.

Sukhbaatar et al. (2015), "End-To-End Memory Networks", arXiv:1503.08895, §4.1. The factor 2 is not in the
paper: with it weights are 1 on average, as those of a bag of words.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.tokens import PAD


def encode_sentences(table: Tensor, words: Tensor, width: int, ordered: bool = True) -> Tensor:
    """Sentences (..., w) of words, PAD at their ends, as (..., t, width), one for each of t tables.

    `table` (vocabulary, t · width) has the vectors of words of all tables side by side. A sentence without
    words is 0. Without `ordered` it is the sum of the vectors, a bag of words.
    """
    flat = words.reshape(-1, words.shape[-1])
    real = flat != PAD  # (s, w)
    counts = real.sum(-1)
    starts = counts.cumsum(0) - counts
    found = flat[real]
    shape = *words.shape[:-1], table.shape[-1] // width, width

    def bag(weights: Tensor) -> Tensor:
        if not len(found):
            return table.new_zeros(shape)
        part = F.embedding_bag(found, table, starts, mode="sum", per_sample_weights=weights[real])
        return part.view(shape)

    if not ordered:
        return bag(torch.ones_like(flat, dtype=table.dtype))
    j = torch.arange(1, flat.shape[-1] + 1, device=flat.device, dtype=table.dtype)
    place = j / counts.clamp(min=1).unsqueeze(-1)  # j/J: (s, w)
    k = torch.arange(1, width + 1, device=flat.device, dtype=table.dtype) / width
    return 2 * (bag(1 - place) - k * bag(1 - 2 * place))
