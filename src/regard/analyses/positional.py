"""Positional heads: the highest weight is nearly always on the same neighbour.

    score(o) = share of the positions i with a neighbour i + o whose highest weight is on it

A head is positional if that is at least 0.9 for some o, in practice −1 or +1. The baseline is chance, 1/n.

Voita et al. (2019), "Analyzing Multi-Head Self-Attention", arXiv:1905.09418, §5.1.
Departs from the paper: positions without such a neighbour (the first has none before it) are not counted.
"""

import torch
from torch import Tensor

from regard.analyses.role import REACH, RoleScores, checked, named
from regard.analyses.tokenized import TokenizedText

LEAST = 0.9  # of the positions


class Positional:
    """Counts the offsets of the highest weights from their queries."""

    def __init__(self) -> None:
        self.hits: Tensor | None = None  # (offsets, layers, heads)
        self.counts, self.chance = torch.zeros(2 * REACH + 1), torch.zeros(2 * REACH + 1)

    def see(self, weights: Tensor, text: TokenizedText | None = None) -> None:
        """Count one text, with weights (layers, heads, n, n)."""
        most = checked(weights).argmax(-1)  # (layers, heads, n)
        n, offsets = most.shape[-1], torch.arange(-REACH, REACH + 1)
        away = most - torch.arange(n)
        hits = (away == offsets.view(-1, 1, 1, 1)).sum(-1)  # (offsets, layers, heads)
        self.hits = hits.float() if self.hits is None else self.hits + hits
        have = (n - offsets.abs()).clamp(min=0)  # positions with such a neighbour
        self.counts, self.chance = self.counts + have, self.chance + have / n

    def found(self) -> list[RoleScores]:
        """The share of each offset that occurs."""
        if self.hits is None:
            return []
        return [
            RoleScores(named(k - REACH), self.hits[k] / count, float(self.chance[k] / count), int(count))
            for k, count in enumerate(self.counts)
            if count
        ]

    def plays(self, finding: RoleScores) -> Tensor:
        """Which heads have the role: (layers, heads), bool."""
        return finding.scores >= LEAST
