"""T5's bias: one learned number per head and bucket of distances, which grow with the distance.

    θᵢⱼ += b_{bucket(j−i)}

Half of the buckets hold one distance each. The other half grow with the logarithm of the distance up to
`longest`, beyond which all share the last one. With `bidirectional` there are as many buckets for keys after
the query as for the others; without it, all later keys share the bucket of distance 0.

Raffel et al. (2020), "Exploring the Limits of Transfer Learning", arXiv:1910.10683, §2.1.
"""

import math

import torch
from torch import Tensor, nn

from regard.positions.by_distance import DistanceTerm


def bucket(distances: Tensor, buckets: int, longest: int, bidirectional: bool) -> Tensor:
    """The bucket (...) of distances j − i (...)."""
    start = torch.zeros_like(distances)
    if bidirectional:
        buckets //= 2
        start, size = torch.where(distances > 0, buckets, 0), distances.abs()
    else:
        size = (-distances).clamp(min=0)
    exact = buckets // 2
    # in float32, as models were trained: exact powers fall on the edge of a bucket
    grown = (size.clamp(min=1).float() / exact).log() / math.log(longest / exact) * (buckets - exact)
    return start + torch.where(size < exact, size, (exact + grown.long()).clamp(max=buckets - 1))


class T5Bias(DistanceTerm):
    """A term: learned biases b (buckets, heads), laid out as in T5; heads=1 works for any shape."""

    def __init__(self, heads: int, buckets: int = 32, longest: int = 128, *, bidirectional: bool = True):
        super().__init__()
        least = 4 if bidirectional else 2
        if buckets < least or buckets % 2 or longest <= buckets // least:
            raise ValueError(
                f"buckets must be even, at least {least}, and longest more than buckets / {least}; "
                f"got buckets={buckets}, longest={longest}."
            )
        self.heads, self.buckets, self.longest, self.bidirectional = heads, buckets, longest, bidirectional
        self.b = nn.Parameter(torch.zeros(buckets, heads))

    def span(self, lo: int, hi: int) -> tuple[int, int]:
        return -self.longest, self.longest if self.bidirectional else 0

    def table(self, query: Tensor, distances: Tensor) -> Tensor:
        """(heads, 1, L), or (1, L) for one head."""
        index = bucket(distances, self.buckets, self.longest, self.bidirectional)  # (L,)
        table = self.b.to(query.dtype)[index].mT  # (heads, L)
        return table if self.heads == 1 else table.unsqueeze(-2)

    def extra_repr(self) -> str:
        return (
            f"heads={self.heads}, buckets={self.buckets}, longest={self.longest}, "
            f"bidirectional={self.bidirectional}"
        )
