"""Soft cap: no score is larger than the cap, or lower than minus the cap.

    θ = c · tanh(score(q, K) / c)

Close to the score where that is small against c; the gradient fades where it is not. Gemma 2 caps the scores
of its attentions at 50.

Gemma Team (2024), "Gemma 2", arXiv:2408.00118, §2.
"""

from collections.abc import Callable
from dataclasses import replace
from math import isfinite

from torch import Tensor

from regard.core.place import Place
from regard.scores.score import Products
from regard.scores.wrapped_score import Wrapped


class SoftCap(Wrapped):
    """Any score, kept between −cap and cap; terms go inside: SoftCap(ScaledDot() + term, 50.0)."""

    def __init__(self, score: str | Callable[..., Tensor] = "scaled_dot", cap: float = 50.0):
        super().__init__(score)
        if not (cap > 0 and isfinite(cap)):
            raise ValueError(f"cap must be above 0 and finite; got {cap}. For no cap use the score itself.")
        self.cap = float(cap)

    def forward(self, query: Tensor, keys: Tensor, place: Place | None = None) -> Tensor:
        """Score query (..., m, d_q) against keys (..., n, d_k): (..., m, n)."""
        return self.cap * (self.theta(query, keys, place) / self.cap).tanh()

    def products(self, query: Tensor, keys: Tensor, place: Place) -> Products | None:
        found = self.inner_products(query, keys, place)
        return None if found is None or found.cap is not None else replace(found, cap=self.cap)

    def extra_repr(self) -> str:
        return f"cap={self.cap}"
