"""Scores as transformers' models scale them, over the temperature of each head.

θ = s qKᵀ / τ        or, behind a soft cap,        θ = c tanh(s qKᵀ / c) / τ
"""

from torch import Tensor

from regard.core.place import Place
from regard.scores.score import Factored, Score
from regard.scores.wrapped_score import Wrapped


class HeadDot(Factored):
    """Dot products times a number, or times one for each head: a tensor (heads, 1, 1)."""

    def __init__(self, scale: float | Tensor):
        super().__init__()
        self.scale = scale

    def factors(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        scale = self.scale.to(query) if isinstance(self.scale, Tensor) else self.scale
        return query * scale, keys


class OverTemperature(Wrapped):
    """Any score over temperatures (heads, 1, 1) that another module owns."""

    def __init__(self, score: Score, temperature: Tensor):
        super().__init__(score)
        self.temperature = temperature

    def forward(self, query: Tensor, keys: Tensor, place: Place | None = None) -> Tensor:
        """Score query (..., heads, m, d_q) against keys (..., heads, n, d_k): (..., heads, m, n)."""
        theta = self.theta(query, keys, place)
        return theta / self.temperature.to(theta)
