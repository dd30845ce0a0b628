"""Mixtures indexed by one number u, uniform on [0, 1], that selects the vertex.

If the vertex changes only at certain cuts, each interval between two cuts is one vertex, and the length of
the interval is its weight.
"""

import torch
from torch import Tensor

NEGLIGIBLE = 1e-12  # shorter intervals are due to rounding


def flaw(scores: Tensor) -> Tensor:
    """(..., 1) for scores (..., n): 0, or NaN where one of them is NaN or +inf."""
    return torch.where(scores == -torch.inf, 0, scores - scores).sum(-1, keepdim=True)


def intervals(cuts: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Middles (..., K) and lengths (..., K) of the intervals between cuts (..., n) in [0, 1], longest first.

    K is the largest number in any row, and at least 1. Lengths are 0 where a row has fewer or no visible key,
    and NaN where a score (..., n) is NaN or +inf.
    """
    ends = cuts.new_zeros(*cuts.shape[:-1], 1)
    cuts = torch.cat([ends, cuts.sort(-1).values, ends + 1], -1)  # (..., n + 2)
    lengths = cuts.diff()
    lengths, order = torch.where(lengths > NEGLIGIBLE, lengths, 0).sort(-1, descending=True)
    most = int((lengths > 0).sum(-1).amax()) if lengths.numel() else 1
    middles = ((cuts[..., 1:] + cuts[..., :-1]) / 2).gather(-1, order)[..., :most]
    lengths = lengths[..., :most] / lengths.sum(-1, keepdim=True)
    some = (scores != -torch.inf).any(-1, keepdim=True)
    return middles, torch.where(some, lengths, 0) + flaw(scores)
