"""A budget: any set of at most k keys. SparseMAP over it needs no active set.

    best(θ) = the k highest of the scores above 0        nearest(θ) = clip(θ − τ, 0, 1)

`solve` decomposes the marginals by systematic sampling: they are laid end to end on a line, and the keys at
u, u + 1, u + 2, … are picked. For u uniform on [0, 1] each key is picked with probability μⱼ, none twice, at
most ⌈Σⱼ μⱼ⌉ ≤ k at once. The set changes only where a marginal ends, so there are at most n + 1 sets.

Madow (1949), "On the Theory of Systematic Sampling, II", Annals of Mathematical Statistics 20(3).
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.core.shapes import check_float
from regard.kernels.sparsemap.budget_operator import nearest_in_budget
from regard.kernels.sparsemap.sparsemap_batch import BUDGET
from regard.structures.built_in import BuiltIn
from regard.structures.cuts import intervals
from regard.structures.structure import Solution


class Budget(BuiltIn):
    """All sets of at most k keys: scores (..., n)."""

    kind = BUDGET
    ordered = True

    def __init__(self, k: int) -> None:
        if not isinstance(k, int) or isinstance(k, bool) or k < 0:
            raise ValueError(
                f"k must be a whole number of at least 0; got {k!r}. It is the largest number of keys."
            )
        self.k = k

    @property
    def limit(self) -> int:
        """k, which its oracle asks for."""
        return self.k

    def nearest(self, scores: Tensor) -> Tensor:
        """The marginals μ, like scores (..., n): in [0, 1], and Σⱼ μⱼ ≤ k."""
        check_float("scores", scores)
        return nearest_in_budget(scores, self.k)

    def solve(self, scores: Tensor) -> Solution:
        """The marginals of scores (..., n), the sets and weights whose mixture they are, and the gap."""
        marginals = self.nearest(scores)
        theta = scores.detach().double()
        mu = nearest_in_budget(theta, self.k)
        ends = torch.where(mu < 1, mu, 0).cumsum(-1)  # (..., n); keys at 1 are in every set
        middles, weights = intervals(ends % 1, theta)
        # The number of u, u + 1, u + 2, … below each end: (..., K, n + 1).
        below = (pad(ends, (1, 0)).unsqueeze(-2) - middles.unsqueeze(-1)).ceil()
        sets = torch.where(mu.unsqueeze(-2) == 1, 1, below.diff().clamp(0, 1)) * (weights != 0).unsqueeze(-1)
        slopes = torch.where(theta == -torch.inf, 0, theta - mu)
        gap = ((self.best(slopes) - mu) * slopes).sum(-1)
        return Solution(marginals, *(x.to(scores.dtype) for x in (sets, weights, gap)))

    def __repr__(self) -> str:
        return f"Budget({self.k})"
