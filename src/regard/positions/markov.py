"""Markov bias: where the step before looked.

    fᵢⱼ = [pᵢ₋₁,ⱼ₋ₖ … pᵢ₋₁,ⱼ₊ₖ]          step i, key j

Words that stand together are translated together: from the weights of the step before, the next step learns
to go on to the right, or wherever the other language goes. Before the first step, and beyond the borders of
the sentence, all are 0.

Cohn et al. (2016), "Incorporating Structural Alignment Biases", arXiv:1601.01085, §4.2.
"""

from torch import Tensor

from regard.core.place import Place
from regard.positions.features import Features, around, check_reach


class Markov(Features):
    """A term of 2 reach + 1 features, from `Place.previous`."""

    def __init__(self, reach: int = 1):
        super().__init__(2 * check_reach(reach) + 1)
        self.reach = reach

    def features(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """(..., m or 1, n, 2 reach + 1)."""
        return around(place.previous, self.reach, query, keys)
