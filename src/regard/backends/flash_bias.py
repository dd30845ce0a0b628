"""What is added to the dot products of one tile: a bias, a bias by distance, and −inf where a mask hides.

A bias by distance is never written out. With the queries of a tile in reverse order, row r and column c are
for the distance (first − stop + 1) + r + c: a view of one vector, whose rows begin one number further each.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.backends.flash_tiles import Layout, Tile
from regard.kernels.common.booleans import minus_infinity_unless, unless_all
from regard.masks.mask import Mask

HIDDEN = float("-inf")


@dataclass(frozen=True, eq=False)
class Terms:
    """What is added to the scores of a call, cut by tiles. Tensors are (a or 1, b or 1, g or 1, …)."""

    layout: Layout
    mask: Mask | None
    m: int
    n: int
    first: int = 0  # the j − i of the first column of a table by distance
    cap: float | None = None

    def visible(self, tile: Tile, g: int, device: torch.device) -> Tensor | None:
        """(a or 1, b or 1, rows or 1, width), or None if the whole tile is."""
        if self.mask is None:
            return None
        where = self.m, self.n, len(self.layout.batch), device
        if tile.index is None:
            cells = self.mask.cells(tile.start, tile.stop, tile.first, tile.last, *where)
        else:
            cells = self.mask.rows(tile.start, tile.stop, *where).index_select(-1, tile.index)
        if unless_all(cells) is None:
            return None
        return _of(self.layout.shaped(cells, 2), g)

    def added(
        self, tile: Tile, g: int, bias: Tensor | None, table: Tensor | None, like: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """What is added (a or 1, b or 1, rows or 1, width), and what may be seen of it, if not all.

        With a table, rows are in reverse order.
        """
        found, hidden = None, self.cap is None and table is not None and self._offsets() is not None
        visible = None if hidden else self.visible(tile, g, like.device)
        if visible is not None and table is not None:
            visible = visible.flip(-2)
        if bias is not None:
            found = (
                tile.keys(_rows(_of(bias, g), tile), -1) if bias.shape[-1] > 1 else _rows(_of(bias, g), tile)
            )
            found = found.expand(*found.shape[:-1], tile.width)
            found = found if table is None else found.flip(-2)
        if table is not None:
            own = self.by_distance(tile, _of(table, g), hidden)
            found = own if found is None else found + own
        return found, visible

    def joined(self, added: Tensor | None, visible: Tensor | None, like: Tensor) -> Tensor | None:
        """Both as one tensor to add."""
        if visible is None:
            return added
        if added is None:
            return minus_infinity_unless(visible, like.dtype)
        return torch.where(visible, added, HIDDEN)

    def by_distance(self, tile: Tile, table: Tensor, hidden: bool) -> Tensor:
        """Of a table (a or 1, b or 1, m or 1, L): (…, rows, width), a view, rows in reverse order."""
        rows, width = tile.stop - tile.start, tile.width
        at = torch.arange(rows + width - 1, device=table.device) + (tile.first - tile.stop + 1)  # j − i
        own = _rows(table, tile).flip(-2).index_select(-1, (at - self.first).clamp(0, table.shape[-1] - 1))
        if hidden:
            (low, high), far = self._offsets() or (0, 0), at - (self.n - self.m)
            own = own.masked_fill((far < low) | (far > high), HIDDEN)
        return skewed(own.contiguous(), rows, width)

    def gathered(self, skew: Tensor, tile: Tile, length: int) -> Tensor:
        """The gradient (…, L) of a table from that of (…, rows + width − 1), by distance."""
        at = self.first - (tile.first - tile.stop + 1)  # the number of column 0
        found, size = skew.new_zeros(*skew.shape[:-1], length), skew.shape[-1]
        low, high = min(max(at + 1, 0), size), min(max(at + length - 1, 0), size)
        if length == 1:
            return skew.sum(-1, keepdim=True)
        found[..., 0] += skew[..., :low].sum(-1)
        found[..., low - at : high - at] += skew[..., low:high]
        found[..., -1] += skew[..., high:].sum(-1)
        return found

    def _offsets(self) -> tuple[int, int] | None:
        return (-self.n - self.m, self.n + self.m) if self.mask is None else self.mask.offsets(self.n)


def skewed(own: Tensor, rows: int, width: int) -> Tensor:
    """Of (a, b, rows or 1, rows + width − 1): (a, b, rows, width), row r beginning at its number r."""
    step = 0 if own.shape[-2] == 1 else own.stride(-2)
    return own.as_strided((*own.shape[:-2], rows, width), (*own.stride()[:-2], step + 1, 1))


def _of(tensor: Tensor, g: int) -> Tensor:
    """The part of (a, b, g or 1, …) for one of g."""
    return tensor[:, :, g if tensor.shape[2] > 1 else 0]


def _rows(tensor: Tensor, tile: Tile) -> Tensor:
    """The part of (…, m or 1, n) for a tile's queries."""
    return tensor if tensor.shape[-2] == 1 else tensor[..., tile.start : tile.stop, :]
