"""Subword-merging heads: a piece of a word looks at the other pieces of that word.

    score = the mean weight that pieces of words of several pieces give to the other pieces of their word

A head that always looks at the neighbour before it does so too, if by chance: the yardstick is the best share
that one fixed neighbour, not farther than 5, would get. A head has the role from 0.5 on, and 0.1 above that.

Correia, Niculae & Martins (2019), "Adaptively Sparse Transformers", arXiv:1909.00015, §5, shows such a head.
The score and its yardstick are ours.
"""

import torch
from torch import Tensor

from regard.analyses.role import REACH, Finding, checked, offsets
from regard.analyses.tokenized import TokenizedText

LEAST, MORE = 0.5, 0.1


class Subwords:
    """Adds up the weight on other pieces of the same word."""

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
        self.mass += (weights.float() * same).sum((-1, -2))  # places without such pieces add nothing
        self.count += int(same.any(-1).sum())
        self.fixed += offsets(same)

    def found(self) -> list[Finding]:
        """The weight, if any word had several pieces."""
        if self.mass is None or not self.count:
            return []
        fixed = float(self.fixed.max()) / self.count
        return [Finding("pieces of its word", self.mass / self.count, fixed, self.count)]

    def plays(self, finding: Finding) -> Tensor:
        """Which heads have the role: (layers, heads), bool."""
        return (finding.scores >= LEAST) & (finding.scores >= finding.yardstick + MORE)
