"""Where tokens stand, as language models are told it: vectors added to embeddings, or scores that know places.

    sinusoidal, learned   a vector for each position, added to the embedding
    rotary                queries and keys turned by an angle that grows with the position: θ depends on i − j
    alibi                 θᵢⱼ − m_h (i − j), with a slope m_h for each head
    none                  nothing: a causal mask alone tells a little

Su et al. (2021), "RoFormer", arXiv:2104.09864, §3.2; Press et al. (2022), "Train Short, Test Long",
arXiv:2108.12409, §3.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from regard.core.place import Place
from regard.models.parts.named_components import check_choice, with_terms
from regard.positions import Learned, Sinusoidal
from regard.scores import Score
from regard.scores.score import ByDistance, Factored, Products

Placing = Literal["rotary", "alibi", "learned", "sinusoidal", "none"]
KINDS = ("rotary", "alibi", "learned", "sinusoidal", "none")
BASE = 10_000.0  # the slowest of the angles turns once in about so many positions


class RotaryDot(Factored):
    """Scaled dot product of query and key, both turned by their positions."""

    uses_place = True

    def __init__(self, d: int):
        super().__init__()
        if d % 2:
            raise ValueError(
                f"rotary positions turn pairs of coordinates: width / heads must be even; got {d}."
            )
        self.d = d
        self.register_buffer("turns", BASE ** (-torch.arange(0, d, 2) / d), persistent=False)

    def factors(self, query: Tensor, keys: Tensor, place: Place) -> tuple[Tensor, Tensor]:
        return self._turned(query, place.queries) * self.d**-0.5, self._turned(keys, place.keys)

    def _turned(self, x: Tensor, positions: Tensor) -> Tensor:
        turns: Tensor = self.turns  # type: ignore[assignment]
        angles = positions.to(x.dtype).unsqueeze(-1) * turns.to(x.dtype)  # (n, d / 2)
        cos, sin = angles.cos(), angles.sin()
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Slopes(nn.Module):
    """A term: −m_h (i − j), with slopes 2^{−8/h}, 2^{−16/h}, … for h heads."""

    def __init__(self, heads: int):
        super().__init__()
        self.register_buffer("slopes", 2.0 ** (-8 * torch.arange(1, heads + 1) / heads), persistent=False)

    def forward(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """(heads, m, n)."""
        slopes: Tensor = self.slopes  # type: ignore[assignment]
        far = (place.queries.unsqueeze(-1) - place.keys.unsqueeze(-2)).abs().to(query.dtype)
        return -slopes.to(query.dtype)[:, None, None] * far

    def added(self, products: Products, query: Tensor, keys: Tensor, place: Place) -> Products | None:
        """The products with this term added, as a bias by distance where positions count up by one."""
        from dataclasses import replace

        if place.shift is None or products.distance is not None:
            return None
        slopes: Tensor = self.slopes  # type: ignore[assignment]
        m, n = query.shape[-2], keys.shape[-2]
        far = torch.arange(-(m - 1), n, device=query.device) - place.shift  # j − i of positions
        table = -slopes.to(query.dtype)[:, None] * far.abs().to(query.dtype)
        return replace(products, distance=ByDistance(table.unsqueeze(-2), -(m - 1)))


def placed_score(score: str, each: int, heads: int, placing: str) -> Score:
    """A score of queries and keys of width `each`, with positions in it if they belong there."""
    check_choice("positions", placing, KINDS)
    if placing == "rotary":
        if score != "scaled_dot":
            raise ValueError(f'rotary positions are for the score "scaled_dot"; got {score!r}.')
        return RotaryDot(each)
    found = with_terms(score, each, each, [])
    return found + Slopes(heads) if placing == "alibi" else found


def added_positions(placing: str, width: int, longest: int) -> Sinusoidal | Learned | None:
    """The vectors that are added to embeddings, if any are."""
    if placing == "learned":
        return Learned(width, longest)
    return Sinusoidal(width) if placing == "sinusoidal" else None
