"""Word vectors from counts: which words stand near each other in the training texts.

    PPMI(w, c) = max(0, log p(w, c) / (p(w) p(c)^¾))        vectors = U √S of its truncated SVD

A start for learned vectors where there is little to learn from: words that are used alike are near each other
from the first step on. Counts are weighted by 1 / distance.

Levy, Goldberg & Dagan (2015), "Improving Distributional Similarity with Lessons Learned from Word
Embeddings".
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import svds
from torch import Tensor

from regard.core.tokens import UNK

WINDOW = 5  # words to either side
MOST = 2_000_000  # tokens that are counted


def cooccurrence_vectors(texts: Iterable[Sequence[int]], vocabulary: int, width: int) -> Tensor | None:
    """Vectors (vocabulary, width) with mean 0 and spread 1, 0 for words without neighbours.

    None if there are too few words for that many dimensions.
    """
    rows, columns, counts, seen = [], [], [], 0
    for text in texts:
        ids = np.asarray(text, dtype=np.int64)
        seen += len(ids)
        for distance in range(1, min(WINDOW, len(ids) - 1) + 1):
            rows.append(ids[distance:])
            columns.append(ids[:-distance])
            counts.append(np.full(len(ids) - distance, 1 / distance))
        if seen > MOST:
            break
    if not rows or vocabulary <= width + 1:
        return None
    one, other, weight = (np.concatenate(part) for part in (rows, columns, counts))
    known = (one > UNK) & (other > UNK)
    one, other, weight = one[known], other[known], weight[known]
    both = coo_matrix((weight, (one, other)), shape=(vocabulary, vocabulary)).tocsr()
    found = (both + both.T).tocoo()
    if not found.nnz:
        return None
    sums = np.asarray(found.sum(1)).ravel()
    smooth = sums**0.75 / (sums**0.75).sum()
    values = np.log(found.data / sums[found.row] / smooth[found.col])
    found.data = np.maximum(values, 0)
    left, size, _ = svds(found.tocsc(), k=width, v0=np.ones(vocabulary), random_state=0)
    vectors = left * np.sqrt(np.maximum(size, 0))
    vectors = vectors - vectors.mean(0)
    return torch.tensor(np.ascontiguousarray(vectors) / max(vectors.std(), 1e-9), dtype=torch.float32)
