"""Bilinear score: the dot product of the key and a learned projection of the query.

    θⱼ = kⱼᵀWq          W: (d_k, d_q)

Luong, Pham & Manning (2015), arXiv:1508.04025, §3.1 ("general").
"""

from torch import Tensor, nn

from regard.scores.score import Factored, check_widths, linear, register


@register(learned=True, any_widths=True)
class Bilinear(Factored):
    """The key's dot product with Wq."""

    def __init__(self, d_q: int, d_k: int):
        super().__init__()
        self.d_q, self.d_k = d_q, d_k
        self.W = nn.Linear(d_q, d_k, bias=False)

    def factors(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        check_widths(query, keys, self.d_q, self.d_k)
        return linear(query, self.W), keys
