"""Scaled dot product: the dot product divided by √d_k.

    θⱼ = kⱼᵀq / √d_k

For q, k ~ N(0, I) the dot product has standard deviation √d_k; without the scale softmax saturates as d_k
grows.

Vaswani et al. (2017), arXiv:1706.03762, §3.2.1.
"""

from typing import Self

from torch import Tensor

from regard.scores.score import Factored, check_same_width, register


@register()
class ScaledDot(Factored):
    """The dot product over √d_k; d_q must equal d_k."""

    @classmethod
    def of(cls, d_q: int, d_k: int) -> Self:
        return cls()

    def factors(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        check_same_width("scaled_dot", query, keys)
        return query * max(query.shape[-1], 1) ** -0.5, keys
