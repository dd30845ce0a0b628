"""Scaled dot product: the dot product times a scale, 1/√d_k unless another is given.

    θⱼ = kⱼᵀq / √d_k

For q, k ~ N(0, I) the dot product has standard deviation √d_k; without the scale softmax saturates as d_k
grows.

Vaswani et al. (2017), arXiv:1706.03762, §3.2.1.
"""

from math import isfinite
from typing import Self

from torch import Tensor

from regard.scores.score import Factored, check_same_width, register


@register()
class ScaledDot(Factored):
    """The dot product over √d_k, or times `scale`; d_q must equal d_k."""

    def __init__(self, scale: float | None = None):
        super().__init__()
        if scale is not None and not isfinite(scale):
            raise ValueError(f"scale must be a finite number; got {scale}.")
        self.scale = scale

    @classmethod
    def of(cls, d_q: int, d_k: int) -> Self:
        return cls()

    def factors(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        check_same_width("scaled_dot", query, keys)
        scale = max(query.shape[-1], 1) ** -0.5 if self.scale is None else self.scale
        return query * scale, keys

    def extra_repr(self) -> str:
        return "" if self.scale is None else f"scale={self.scale}"
