"""A learned vector per distance, added to the values (`RelativeValues`), tile by tile.

    zᵢ = Σⱼ pᵢⱼ (vⱼ + a_{clip(j − i, ±r)})

For the queries of a tile all keys before the first of them less r are at distance −r, all after the last plus
r at distance r: their vector is added to the values (`shifted`). Weights are needed for the keys between
alone, `near` them, which are about as many as the queries.

Shaw, Uszkoreit & Vaswani (2018), arXiv:1803.02155, Eq. 3.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.backends.call import Call
from regard.backends.flash_tiles import Tile
from regard.kernels.common.operator import is_plain
from regard.positions.relative_values import RelativeValues

ROWS = 128  # queries of a tile


@dataclass(frozen=True)
class Band:
    """The reach r, and the key at the place of the first query."""

    reach: int
    shift: int

    def near(self, tile: Tile) -> Tile:
        """The same queries with the keys near them."""
        first = min(max(tile.start + self.shift - self.reach + 1, tile.first), tile.last)
        last = max(min(tile.stop + self.shift + self.reach - 1, tile.last), first)
        return Tile(tile.start, tile.stop, first, last)

    def columns(self, tile: Tile) -> slice:
        """Where the near keys are among those of the tile."""
        near = self.near(tile)
        return slice(near.first - tile.first, near.last - tile.first)

    def index(self, tile: Tile, flipped: bool, device: torch.device) -> Tensor:
        """The row of the vectors that belongs to each query and key of a tile, (rows, width)."""
        i = torch.arange(tile.start, tile.stop, device=device).unsqueeze(-1) + self.shift
        found = (torch.arange(tile.first, tile.last, device=device) - i).clamp(-self.reach, self.reach)
        return (found.flip(-2) if flipped else found) + self.reach

    def shifted(self, tile: Tile, values: Tensor, vectors: Tensor) -> Tensor:
        """The values (..., width, d) of a tile with the vectors of the far keys added."""
        at = self.columns(tile)
        found = values.clone()
        found[..., : at.start, :] += vectors[0]
        found[..., at.stop :, :] += vectors[-1]
        return found

    def per_distance(self, p: Tensor, index: Tensor) -> Tensor:
        """The weights (..., rows, keys) by distance, (..., rows, 2r + 1)."""
        found = p.new_zeros(*p.shape[:-1], 2 * self.reach + 1)
        return found.scatter_add(-1, index.expand(p.shape), p)

    def gradient(self, tile: Tile, by_distance: Tensor, dz: Tensor, dv: Tensor) -> Tensor:
        """That of the vectors (2r + 1, d): of near keys by their weights, of far ones as their values'."""
        at, d = self.columns(tile), dz.shape[-1]
        found = by_distance.flatten(0, -2).mT @ dz.flatten(0, -2)
        found[0] += dv[..., : at.start, :].reshape(-1, d).sum(0)
        found[-1] += dv[..., at.stop :, :].reshape(-1, d).sum(0)
        return found


def band_of(call: Call) -> Band | None:
    """The band of a call with `RelativeValues`, where positions count up by one."""
    term, shift = call.value_term, call.where().shift
    if not isinstance(term, RelativeValues) or shift is None or term.d_v != call.values.shape[-1]:
        return None
    return Band(term.reach, shift) if is_plain(call.query, call.keys, call.values) else None


def in_rows(tiles: list[Tile]) -> list[Tile]:
    """The tiles with at most so many queries."""
    return [
        Tile(start, min(start + ROWS, tile.stop), tile.first, tile.last)
        for tile in tiles
        for start in range(tile.start, tile.stop, ROWS)
    ]
