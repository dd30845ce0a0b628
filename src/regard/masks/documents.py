"""Documents mask: several texts packed into one row, each seen only by itself.

Positions are aligned at the end, as in `Causal`: query i of m stands at n − m + i, and belongs to the
document of that key. Where every document is one run of keys, rows are intervals.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.errors import DtypeError, ShapeError
from regard.kernels.common.operator import is_plain
from regard.masks.mask import Mask


class Documents(Mask):
    """Query i of m sees keys j with ids[j] = ids[n − m + i]. ids (n,) or (b, n), one whole number per key."""

    def __init__(self, ids: Tensor):
        if not isinstance(ids, Tensor):
            raise TypeError(
                f"ids must be a tensor of whole numbers; got {type(ids).__name__}. Use torch.tensor(ids)."
            )
        if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
            raise DtypeError(f"ids must be whole numbers, the document of each key; got {ids.dtype}.")
        if ids.dim() == 0:
            raise ShapeError("ids must be (n,) or (b, n), the document of each key; got one number.")
        self.ids = ids

    def check(self, batch: Sequence[int], m: int, n: int) -> None:
        shape = self.ids.shape
        fits = shape[-1] == n and len(shape) - 1 <= len(batch)
        if not fits or any(a not in (1, b) for a, b in zip(shape[:-1], batch, strict=False)):
            wanted = (*batch[: len(shape) - 1], n)
            raise ShapeError(f"ids must name the document of each key, {wanted}; got {tuple(shape)}.")

    def rows(self, start: int, stop: int, m: int, n: int, axes: int, device: torch.device) -> Tensor:
        return self.cells(start, stop, 0, n, m, n, axes, device)

    def cells(
        self, start: int, stop: int, first: int, last: int, m: int, n: int, axes: int, device: torch.device
    ) -> Tensor:
        ids = self._ids(n, axes, device)
        same = self._queries(ids, m, n)[..., start:stop].unsqueeze(-1) == ids[..., first:last].unsqueeze(-2)
        if m > n:  # queries before the first key
            same = same & (torch.arange(start, stop, device=device) >= m - n).unsqueeze(-1)
        return same

    def interval(self, m: int, n: int, axes: int, device: torch.device) -> tuple[Tensor, Tensor] | None:
        if not is_plain(self.ids):
            return None
        ids = self._ids(n, axes, device)
        runs = F.pad((ids.diff() != 0).cumsum(-1), (1, 0))  # (..., n): the number of the run
        if not torch.equal(runs[..., -1], (ids.sort(-1).values.diff() != 0).sum(-1)):
            return None  # a document in several pieces
        queries, runs = self._queries(runs, m, n).contiguous(), runs.contiguous()
        lo, hi = (torch.searchsorted(runs, queries, right=right) for right in (False, True))
        if m > n:
            hi = torch.where(torch.arange(m, device=device) >= m - n, hi, lo)
        return lo, hi

    def _ids(self, n: int, axes: int, device: torch.device) -> Tensor:
        """(..., n), with `axes` axes before it."""
        *batch, size = self.ids.shape
        if len(batch) > axes or size != n:
            raise ShapeError(
                f"ids {tuple(self.ids.shape)} must be the documents of n={n} keys, with at most {axes} axes "
                "before them."
            )
        return self.ids.to(device).reshape(*batch, *[1] * (axes - len(batch) if batch else 0), n)

    def _queries(self, of_keys: Tensor, m: int, n: int) -> Tensor:
        """What the keys have where the m queries stand."""
        return of_keys[..., n - m :] if m <= n else F.pad(of_keys, (m - n, 0))

    def __repr__(self) -> str:
        return f"Documents{tuple(self.ids.shape)}"
