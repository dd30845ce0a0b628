"""Subword-merging heads: a subword attends to the other subwords of its word.

    score = mean weight of a subword on the other subwords of its word, over words of several subwords

A head that always attends to the previous token does so too: the baseline is the best score of one fixed
neighbour, at most 5 away. A head has the role if its score is at least 0.5, and at least 0.1 above that.

Correia, Niculae & Martins (2019), "Adaptively Sparse Transformers", arXiv:1909.00015, §5, shows such a head.
The score and its baseline are ours.
"""

import torch
from torch import Tensor

from regard.analyses.role import REACH, RoleScores, checked, offsets
from regard.analyses.tokenized import TokenizedText

LEAST, MORE = 0.5, 0.1


class Subwords:
    """Sums the weights on other subwords of the same word."""

    def __init__(self) -> None:
        self.mass: Tensor | None = None  # (layers, heads)
        self.count, self.fixed = 0, torch.zeros(2 * REACH + 1)

    def see(self, weights: Tensor, text: TokenizedText) -> None:
        """Count one text, with weights (layers, heads, n, n)."""
        n = len(text.tokens)
        checked(weights, n)
        if self.mass is None:
            self.mass = torch.zeros(weights.shape[:2])
        parts = text.words.float()
        same = (parts.T @ parts > 0) & ~torch.eye(n, dtype=torch.bool)  # (n, n)
        self.mass += (weights.float() * same).sum((-1, -2))  # other positions add nothing
        self.count += int(same.any(-1).sum())
        self.fixed += offsets(same)

    def found(self) -> list[RoleScores]:
        """The mean weight, if any word has several subwords."""
        if self.mass is None or not self.count:
            return []
        fixed = float(self.fixed.max()) / self.count
        return [RoleScores("pieces of its word", self.mass / self.count, fixed, self.count)]

    def plays(self, finding: RoleScores) -> Tensor:
        """Which heads have the role: (layers, heads), bool."""
        return (finding.scores >= LEAST) & (finding.scores >= finding.baseline + MORE)
