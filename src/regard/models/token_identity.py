"""Token identifiability: whether a hidden state still tells which word it is of.

    state i is identified if, of all words x_j of its text, x_i is the nearest to g(h_i), by the cosine

with g the identity, or the linear map from hidden states to words, fitted on other texts (least squares).
Where words cannot be told from the states, weights over the states are not weights over the words.

Brunner et al. (2020), "On Identifiability in Transformers", arXiv:1908.04211, §4.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.errors import ShapeError
from regard.models.subject import checked_lengths, real


def identified(
    states: Tensor, vectors: Tensor, lengths: Tensor | None = None, *, g: Tensor | None = None
) -> Tensor:
    """1 for the states (b, n, d) that are nearest to their own word's vector (b, n, e), else 0: (b, n).

    g (d, e) is a linear map, as `linear_map` finds it; without one d must equal e.
    """
    lengths = checked_lengths(states, lengths)
    moved = states if g is None else states @ g
    if moved.shape != vectors.shape:
        raise ShapeError(
            f"states {tuple(moved.shape)} and vectors {tuple(vectors.shape)} must have the same shape; "
            "for different widths give g=linear_map(states, vectors) of other texts."
        )
    there = real(lengths, states.shape[1])
    near = F.normalize(moved, dim=-1) @ F.normalize(vectors, dim=-1).mT  # (b, n, n)
    near = near.masked_fill(~there.unsqueeze(-2), float("-inf"))
    own = near.diagonal(dim1=-2, dim2=-1)
    rounding = vectors.shape[-1] * torch.finfo(near.dtype).eps
    right = own >= near.amax(-1) - rounding  # the same word twice in a text: both are right
    return (right & there).to(states.dtype)


def linear_map(states: Tensor, vectors: Tensor, lengths: Tensor | None = None) -> Tensor:
    """The map g (d, e) that makes Σ ‖h g − x‖² over states (b, n, d) and vectors (b, n, e) smallest."""
    there = real(checked_lengths(states, lengths), states.shape[1])
    g: Tensor = torch.linalg.lstsq(states[there], vectors[there]).solution
    return g
