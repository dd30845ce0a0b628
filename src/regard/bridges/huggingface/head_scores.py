"""Scores as transformers' models scale, bias and cap them, at the temperature of each head.

    θ = s qKᵀ,    θ = s qKᵀ + b    or    θ = c tanh(s qKᵀ / c)        the map is then of θ / τ

Soft caps: Gemma Team (2024), "Gemma 2", arXiv:2408.00118, §2.
"""

from torch import Tensor

from regard.scores.score import Factored, Score


class HeadDot(Factored):
    """Dot products times a number, or times one for each head: a tensor that broadcasts to (..., m, 1)."""

    def __init__(self, scale: float | Tensor):
        super().__init__()
        self.scale = scale

    def factors(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        scale = self.scale.to(query) if isinstance(self.scale, Tensor) else self.scale
        return query * scale, keys


class CappedDot(Score):
    """Scaled dot products that tanh keeps within ±cap, then divided by the temperature."""

    def __init__(self, scale: float, cap: float, temperature: Tensor | None = None):
        super().__init__()
        self.scale, self.cap, self.temperature = scale, cap, temperature

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        theta = self.cap * ((query * (self.scale / self.cap)) @ keys.mT).tanh()
        return theta if self.temperature is None else theta / self.temperature.to(theta)
