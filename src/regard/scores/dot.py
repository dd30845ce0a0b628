"""Dot product of query and key.

    θⱼ = kⱼᵀq

Luong, Pham & Manning (2015), arXiv:1508.04025, §3.1 ("dot").
"""

from typing import Self

from torch import Tensor

from regard.scores.score import Factored, check_same_width, register


@register()
class Dot(Factored):
    """The dot product; d_q must equal d_k."""

    @classmethod
    def of(cls, d_q: int, d_k: int) -> Self:
        return cls()

    def factors(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        check_same_width("dot", query, keys)
        return query, keys
