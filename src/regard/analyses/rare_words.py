"""Rare-word heads: every query attends to the rarest token of the sentence.

    score = share of the positions whose highest weight is on the least frequent token

over the sentences whose rarest token is not one of the 500 most frequent. Several may be equally rare. A head
has the role from 0.5 on, if that is above the baseline: chance, the share of such tokens in the sentence.

Voita et al. (2019), arXiv:1905.09418, §5.3 (there: the rarest token, and one of the two rarest).
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.analyses.role import RoleScores, checked
from regard.analyses.tokenized import TokenizedText
from regard.data.encoded import Encoded
from regard.data.text import DataError
from regard.runs.folder import CACHE

LEAST = 0.5  # of the positions
COMMON = 500  # the most frequent tokens never count as rare


class RareWords:
    """Counts highest weights on the rarest token, given token frequencies (0 for tokens without)."""

    def __init__(self, counts: Mapping[int, int], common: int = COMMON):
        if common < 0:
            raise ValueError(f"common must be at least 0; got {common}.")
        self.counts = counts
        self.common = {t for t, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:common]}
        self.hits: Tensor | None = None  # (layers, heads)
        self.count, self.chance = 0, 0.0

    def rarest(self, tokens: list[int]) -> Tensor | None:
        """Which tokens (n,) of a sentence are its rarest; None if one of these is common."""
        often = [self.counts.get(token, 0) for token in tokens]
        least = min(often)
        if any(token in self.common for token, count in zip(tokens, often, strict=True) if count == least):
            return None
        return torch.tensor([count == least for count in often])

    def see(self, weights: Tensor, text: TokenizedText) -> None:
        """Count one text, with weights (layers, heads, n, n)."""
        n = len(text.tokens)
        most = checked(weights, n).argmax(-1)  # (layers, heads, n)
        if self.hits is None:
            self.hits = torch.zeros(most.shape[:-1])
        rarest = self.rarest(text.tokens)
        if rarest is not None:
            self.hits += rarest[most].sum(-1)
            self.count += n
            self.chance += float(rarest.sum())  # n positions, each with probability rarest/n

    def found(self) -> list[RoleScores]:
        """The share, if any sentence had a rare token."""
        if self.hits is None or not self.count:
            return []
        return [RoleScores("rarest token", self.hits / self.count, self.chance / self.count, self.count)]

    def plays(self, finding: RoleScores) -> Tensor:
        """Which heads have the role: (layers, heads), bool."""
        return (finding.scores >= LEAST) & (finding.scores > finding.baseline)


def training_counts(run: Path) -> Mapping[int, int] | None:
    """How often each token occurs in the texts that a run was trained on, if its folder still has them."""
    try:
        encoded = Encoded.open(run / CACHE / "train")
        counts = np.bincount(encoded.values[encoded.ragged[0]])  # of the text that is read
    except DataError:
        return None
    return Counter({token: int(count) for token, count in enumerate(counts) if count})
