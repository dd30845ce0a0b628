"""A score over the temperature of each head, where that cannot go into the query: behind a soft cap.

θ = c tanh(s qKᵀ / c) / τ
"""

from torch import Tensor

from regard.core.place import Place
from regard.scores.score import Score
from regard.scores.wrapped import Wrapped


class OverTemperature(Wrapped):
    """Any score over temperatures (heads, 1, 1) that another module owns."""

    def __init__(self, score: Score, temperature: Tensor):
        super().__init__(score)
        self.temperature = temperature

    def forward(self, query: Tensor, keys: Tensor, place: Place | None = None) -> Tensor:
        """Score query (..., heads, m, d_q) against keys (..., heads, n, d_k): (..., heads, m, n)."""
        theta = self.theta(query, keys, place)
        return theta / self.temperature.to(theta)
