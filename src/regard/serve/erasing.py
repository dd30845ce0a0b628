"""Erasure: some keys are not looked at, and what they had goes to the others.

    p'_j = 0 for j erased,      p'_j = p_j Σp / Σ_{k kept} p_k otherwise

A row keeps its sum, which is 1 for most maps. Where all of it was on erased keys, as a sparse map allows,
nothing is left: the row is 0 and so is its context. With softmax this is the same as a mask.

Serrano & Smith (2019), "Is Attention Interpretable?", arXiv:1906.03731, §3.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def erase(weights: Tensor, keys: Sequence[int]) -> Tensor:
    """Weights (..., m, n) without these keys, the rest renormalised."""
    kept = torch.ones(weights.shape[-1], dtype=torch.bool, device=weights.device)
    kept[list(keys)] = False
    rest = torch.where(kept, weights, 0)
    left = rest.sum(-1, keepdim=True)
    return rest * (weights.sum(-1, keepdim=True) / torch.where(left > 0, left, 1))  # no 0/0, nor its gradient
