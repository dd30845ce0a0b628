"""Cosine similarity over a temperature: it depends on directions, not on lengths.

    θⱼ = kⱼᵀq / (‖kⱼ‖ ‖q‖ T)

A vector of length 0 has similarity 0 to everything. One lecture names cosine and then prints the dot product:
they are two scores (the dot product grows with the length of a key, the cosine does not).

Graves, Wayne & Danihelka (2014), "Neural Turing Machines", arXiv:1410.5401, §3.3.1 (there β = 1/T).
"""

import math
from typing import Self

import torch
from torch import Tensor, nn

from regard.scores.score import Factored, check_same_width, register


@register()
class Cosine(Factored):
    """Cosine over a temperature, fixed or learned (kept positive as its logarithm)."""

    def __init__(self, temperature: float = 0.1, *, learn: bool = False):
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature must be positive; got {temperature}.")
        self.temperature = temperature
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature))) if learn else None

    @classmethod
    def of(cls, d_q: int, d_k: int) -> Self:
        return cls()

    def factors(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        check_same_width("cosine", query, keys)
        if self.log_temperature is None:
            return direction(query) / self.temperature, direction(keys)
        return direction(query) * (-self.log_temperature.to(query.dtype)).exp(), direction(keys)


def direction(x: Tensor) -> Tensor:
    """x (..., d) normalised to length 1, or 0 where x is 0; its derivatives are finite everywhere."""
    size = x.detach().abs().amax(-1, keepdim=True) if x.shape[-1] else x.new_ones(())
    x = x / torch.where(size > 0, size, 1)  # the direction is the same, and squares cannot overflow
    square = (x * x).sum(-1, keepdim=True)
    some = square > 0
    return x * torch.where(some, torch.where(some, square, 1).rsqrt(), 0)
