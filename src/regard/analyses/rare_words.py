"""Rare-word heads: wherever they look from, they look at the rarest token of the sentence.

    score = share of the places whose highest weight is on the least frequent token

over the sentences whose rarest token is not one of the 500 most frequent. Several may be equally rare. A head
has the role from 0.5 on, if that is above the yardstick: chance, the share of such tokens in the sentence.

Voita et al. (2019), arXiv:1905.09418, §5.3 (there: the rarest token, and one of the two rarest).
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from regard.analyses.role import Finding, checked
from regard.analyses.tokenized import TokenizedText

LEAST = 0.5  # of the places
COMMON = 500  # tokens that are too frequent to be rare in any sentence


class RareWords:
    """Counts looks at the rarest token, given how often tokens occur (those without a count: never)."""

    def __init__(self, counts: Mapping[int, int], common: int = COMMON):
        if common < 0:
            raise ValueError(f"common must be at least 0; got {common}.")
        self.counts = counts
        self.common = {t for t, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:common]}
        self.hits: Tensor | None = None  # (layers, heads)
        self.count, self.chance = 0, 0.0

    def rarest(self, tokens: list[int]) -> Tensor | None:
        """Which tokens (n,) of a sentence are its rarest; None if even these are common."""
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
            self.chance += float(rarest.sum())  # n places, each with chance rarest/n

    def found(self) -> list[Finding]:
        """The share, if any sentence had a rare token."""
        if self.hits is None or not self.count:
            return []
        return [Finding("rarest token", self.hits / self.count, self.chance / self.count, self.count)]

    def plays(self, finding: Finding) -> Tensor:
        """Which heads have the role: (layers, heads), bool."""
        return (finding.scores >= LEAST) & (finding.scores > finding.yardstick)
