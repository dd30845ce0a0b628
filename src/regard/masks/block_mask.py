"""Block mask: a table says which tiles of size × size may be looked at.

Positions are aligned at the end, as in `Causal`: query i of m stands at n − m + i.

Child, Gray, Radford & Sutskever (2019), "Generating Long Sequences with Sparse Transformers",
arXiv:1904.10509.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.errors import DtypeError, ShapeError
from regard.masks.mask import Mask


class Blocks(Mask):
    """Query at position p sees keys j with table[..., p // size, j // size]; table (..., rows, columns)."""

    def __init__(self, table: Tensor, size: int):
        if not isinstance(table, Tensor) or table.dtype != torch.bool:
            came = table.dtype if isinstance(table, Tensor) else type(table).__name__
            raise DtypeError(f"table must be a boolean tensor, True = may be looked at; got {came}.")
        if table.dim() < 2:
            raise ShapeError(f"table must be (..., rows, columns) of tiles; got {tuple(table.shape)}.")
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"size must be at least 1, the width of a tile; got {size}.")
        self.table, self.size = table, size

    def check(self, batch: Sequence[int], m: int, n: int) -> None:
        *axes, rows, columns = self.table.shape
        need = -(-n // self.size)
        if rows < need or columns < need:
            raise ShapeError(
                f"table must have {need} × {need} tiles of {self.size} for n={n} keys; "
                f"got {rows} × {columns}."
            )
        if len(axes) > len(batch) or any(
            a not in (1, b) for a, b in zip(reversed(axes), reversed(batch), strict=False)
        ):
            raise ShapeError(
                f"table must broadcast to {(*batch, rows, columns)}; got {tuple(self.table.shape)}."
            )

    def rows(self, start: int, stop: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        return self.cells(start, stop, 0, n, m, n, axes, device)

    def cells(
        self, start: int, stop: int, first: int, last: int, m: int, n: int, axes: int, device: torch.device
    ) -> Tensor:
        at = torch.arange(n - m + start, n - m + stop, device=device)
        keys = torch.arange(first, last, device=device) // self.size
        table = self.table.to(device)
        cells = table.index_select(-2, at.clamp(min=0) // self.size).index_select(-1, keys)
        return cells if m <= n else cells & (at >= 0).unsqueeze(-1)

    def __repr__(self) -> str:
        return f"Blocks({tuple(self.table.shape)}, {self.size})"
