"""Attention weights between the words of one sentence pair, in one direction or in both."""

from dataclasses import dataclass

import numpy as np

from regard.alignment.bitext import Floats


@dataclass(frozen=True, eq=False)
class PairWeights:
    """Weights between m target and n source words."""

    forward: Floats  # (m, n): from each target word to the source
    reverse: Floats | None = None  # (n, m): from each source word to the target

    @classmethod
    def zeros(cls, n: int, m: int) -> "PairWeights":
        """All 0, for n source and m target words."""
        return cls(np.zeros((m, n)), np.zeros((n, m)))
