"""Local fertility bias: the total weight of each key so far.

    fᵢⱼ = [Σ_{i'<i} pᵢ',ⱼ₋ₖ … Σ_{i'<i} pᵢ',ⱼ₊ₖ]          step i, key j

A source word with a high total has probably been translated; one with a low total still has to be.

Cohn et al. (2016), "Incorporating Structural Alignment Biases", arXiv:1601.01085, §4.3.
"""

from torch import Tensor

from regard.core.place import Place
from regard.positions.feature_terms import Features, around, check_reach


class Fertility(Features):
    """A term of 2 reach + 1 features, from `Place.total`."""

    def __init__(self, reach: int = 1):
        super().__init__(2 * check_reach(reach) + 1)
        self.reach = reach

    def features(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """(..., m or 1, n, 2 reach + 1)."""
        return around(place.total, self.reach, query, keys)
