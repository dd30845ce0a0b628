"""Where the queries and keys of one call stand: what a term may know beside the query and the keys."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Place:
    """Positions, lengths and history of a block of queries against all keys; backends cut it with them."""

    queries: Tensor  # (..., m) positions of these queries
    keys: Tensor  # (..., n) positions of the keys
    lengths: Tensor | None = None  # (...) true number of keys; None where all n are real
    previous: Tensor | None = None  # (..., m, n) or (..., 1, n): the weights of the step before
    total: Tensor | None = None  # (..., m, n) or (..., 1, n): the sum of the weights of all earlier steps
    visible: Tensor | None = None  # (..., m, n) or (..., 1, n) boolean: what these queries may look at
    first: int = 0  # number of the first of these queries in the whole call
    # Where positions count up by one: the first query's less the first key's. None: they may be anything.
    shift: int | None = None
    encoded: bool = (
        False  # whether the keys have their positions in them already, as in a cache (`Score.encoded`)
    )
    cells: Tensor | None = None  # (n, 2): row and column of each key, where the keys are cells of a plane

    def rows(self, start: int, stop: int) -> "Place":
        """The place of queries start to stop (not included) of this block."""
        return replace(
            self,
            queries=self.queries[..., start:stop],
            previous=_cut(self.previous, start, stop),
            total=_cut(self.total, start, stop),
            visible=_cut(self.visible, start, stop),
            first=self.first + start,
            shift=None if self.shift is None else self.shift + start,
        )

    def detach(self) -> "Place":
        """The same, the earlier weights cut off from the graph."""
        previous, total = (None if t is None else t.detach() for t in (self.previous, self.total))
        return replace(self, previous=previous, total=total)

    @staticmethod
    def default(
        m: int, n: int, device: torch.device, lengths: Tensor | None = None, encoded: bool = False
    ) -> "Place":
        """Keys at 0 … n − 1 and the queries at the last m of these places, as Causal sees them."""
        queries, keys = torch.arange(n - m, n, device=device), torch.arange(n, device=device)
        return Place(queries, keys, lengths, shift=n - m, encoded=encoded)

    @staticmethod
    def on_grid(m: int, grid: tuple[int, int], device: torch.device) -> "Place":
        """Keys that are the cells of a plane of rows × columns, row by row, and m queries without a place."""
        rows, columns = grid
        keys = torch.arange(rows * columns, device=device)
        cells = torch.stack([keys // columns, keys % columns], -1)
        return Place(torch.arange(m, device=device), keys, cells=cells)


def _cut(tensor: Tensor | None, start: int, stop: int) -> Tensor | None:
    """Rows start to stop of (..., m, n); a single row (..., 1, n) serves every query."""
    return tensor if tensor is None or tensor.shape[-2] == 1 else tensor[..., start:stop, :]
