"""Deceive, by the head that looks most at forbidden words: no head may be seen to look there.

    − λ minₕ log(1 − αₕᵀm)        m_t = 1 if the word t is forbidden

With one query it is the same as `deceive`. With the mean over heads one of them can still look, at a price.

Pruthi et al. (2020), "Learning to Deceive with Attention-Based Explanations", arXiv:1909.07913, §3.
"""

from torch import Tensor

from regard.models.classifiers.regularizers.deceive import Deceive
from regard.models.classifiers.regularizers.regularizer import register


@register()
class DeceiveMax(Deceive):
    """Penalizes weight on forbidden words by the head that has most of it."""

    def over_heads(self, penalties: Tensor) -> Tensor:
        return penalties.amax(0)
