"""The match score: how often the word that is looked at most is one that the target word is linked to.

    match = share of target words j with argmaxᵢ pⱼᵢ linked to j      mass = mean of Σᵢ pⱼᵢ over i linked to j

over the target words that have a link. Koehn & Knowles (2017), "Six Challenges for Neural Machine
Translation", arXiv:1706.03872, with the links of an aligner.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.alignment.links import Links
from regard.core.errors import ShapeError


class Match(NamedTuple):
    """How well weights agree with links."""

    match: float
    mass: float
    words: int  # target words with a link


def match_score(pairs: Iterable[tuple[Tensor | NDArray[np.float64], Links]]) -> Match:
    """Score weights (m, n) of target words on source words against the links of their sentence."""
    hits, mass, words = 0, 0.0, 0
    for given, links in pairs:
        weights = torch.as_tensor(given)
        m, n = weights.shape
        linked: dict[int, list[int]] = {}
        for i, j in links.sure:
            if not (i < n and j < m):
                raise ShapeError(f"links must be within {n} source and {m} target words; got {(i, j)}.")
            linked.setdefault(j, []).append(i)
        best = weights.argmax(-1).tolist()
        for j, sources in linked.items():
            hits += best[j] in sources
            mass += float(weights[j, sources].sum())
            words += 1
    return Match(hits / words if words else 0.0, mass / words if words else 0.0, words)
