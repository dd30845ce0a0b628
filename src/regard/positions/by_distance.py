"""Terms that depend on the distance between query and key alone, in the form that fast backends take.

    θᵢⱼ += table[clip(j − i, lo, hi)]          j, i: positions of key and query

Nothing of size m × n is made as long as positions count up by one (`Place.shift`); where they are given one
by one, the term is written out.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.core.place import Place
from regard.scores.score import ByDistance, Products


class DistanceTerm(nn.Module):
    """A term given by `table`: what is added at each distance from lo to hi, and beyond them as at the ends.

    A subclass defines `span` and `table`, and `forward` too if its span is not always the same.
    """

    def span(self, lo: int, hi: int) -> tuple[int, int]:
        """The distances j − i that need a column of their own, where lo to hi occur."""
        raise NotImplementedError

    def table(self, query: Tensor, distances: Tensor) -> Tensor:
        """(..., m or 1, L) of query (..., m, d_q) and distances (L,): a number for each distance."""
        raise NotImplementedError

    def forward(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """(..., m, n), or a shape that broadcasts to it."""
        lo, hi = self.span(0, 0)
        apart = distances(place)
        table = self.table(query, torch.arange(lo, hi + 1, device=query.device))
        index = apart.clamp(lo, hi) - lo
        if table.shape[-2] == 1 and index.dim() == 2:
            return table.squeeze(-2)[..., index]
        wanted = torch.broadcast_shapes(table.shape[:-2], index.shape[:-2])
        table = table.expand(*wanted, index.shape[-2], table.shape[-1])
        return table.gather(-1, index.expand(*wanted, *index.shape[-2:]))

    def added(self, products: Products, query: Tensor, keys: Tensor, place: Place) -> Products | None:
        """The products with this term added; None if positions do not count up by one."""
        if place.shift is None:
            return None
        m, n, shift = query.shape[-2], keys.shape[-2], place.shift
        lo, hi = self.span(1 - m - shift, n - 1 - shift)
        table = self.table(query, torch.arange(lo, hi + 1, device=query.device))
        return replace(products, distance=joined(products.distance, ByDistance(table, lo + shift)))


def distances(place: Place) -> Tensor:
    """j − i for every pair of query and key: (..., m, n)."""
    return place.keys.unsqueeze(-2) - place.queries.unsqueeze(-1)


def joined(one: ByDistance | None, other: ByDistance) -> ByDistance:
    """The sum of two, each as at its ends beyond them."""
    if one is None:
        return other
    first = min(one.first, other.first)
    last = max(x.first + x.table.shape[-1] for x in (one, other))
    column = torch.arange(first, last, device=other.table.device)
    tables = [x.table[..., (column - x.first).clamp(0, x.table.shape[-1] - 1)] for x in (one, other)]
    return ByDistance(tables[0] + tables[1], first)
