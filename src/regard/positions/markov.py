"""Markov bias: the weights of the previous step.

    fᵢⱼ = [pᵢ₋₁,ⱼ₋ₖ … pᵢ₋₁,ⱼ₊ₖ]          step i, key j

Adjacent words are often translated together: from the weights of the previous step, the score can learn to
move on to the right, or as the word order of the two languages demands. Before the first step and beyond the
ends of the sentence all features are 0.

Cohn et al. (2016), "Incorporating Structural Alignment Biases", arXiv:1601.01085, §4.2.
"""

from torch import Tensor

from regard.core.place import Place
from regard.positions.feature_terms import Features, around, check_reach


class Markov(Features):
    """A term of 2 reach + 1 features, from `Place.previous`."""

    def __init__(self, reach: int = 1):
        super().__init__(2 * check_reach(reach) + 1)
        self.reach = reach

    def features(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """(..., m or 1, n, 2 reach + 1)."""
        return around(place.previous, self.reach, query, keys)
