"""One score per state of a key, on a last axis: the input of maps with several states.

    θⱼₛ = scoreₛ(q, kⱼ)

A chain of labels (`regard.maps.Chain`) assigns one of several states to every key, and each state has its own
score. Kim et al. (2017), "Structured Attention Networks", arXiv:1702.00887.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.core.place import Place
from regard.scores.score import Score, score_at


class States(Score):
    """Several scores stacked, one per state: θ (..., m, n, states)."""

    def __init__(self, *scores: Callable[..., Tensor]):
        super().__init__()
        if len(scores) < 2:
            raise ValueError(f"states needs a score for each state, so at least 2; got {len(scores)}.")
        self.scores = list(scores)
        self.modules_among_scores = nn.ModuleList(s for s in scores if isinstance(s, nn.Module))
        self.uses_place = any(getattr(s, "uses_place", False) for s in scores)
        self.looks_around = any(getattr(s, "looks_around", False) for s in scores)
        self.per_pair = sum(getattr(s, "per_pair", 1) for s in scores)

    def forward(self, query: Tensor, keys: Tensor, place: Place | None = None) -> Tensor:
        """Score query (..., m, d_q) against keys (..., n, d_k): (..., m, n, states)."""
        return torch.stack([score_at(score, query, keys, place) for score in self.scores], -1)
