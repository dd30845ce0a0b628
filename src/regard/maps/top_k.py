"""Top-k maps: the k keys of highest score share the weight, the others get none.

    π(θ) = map(θ̃),      θ̃ⱼ = θⱼ if j is among the k highest, else −∞

Ties for the last place go to the keys that come first. Gradients flow through the k keys alone. With k ≥ n
it is the map itself; `top_k_sparsemax` differs from sparsemax only in rows whose support is larger than k.
"""

import torch
from torch import Tensor

from regard.maps.softmax import softmax
from regard.maps.sparsemax import sparsemax
from regard.maps.table import register


def highest(scores: Tensor, k: int) -> Tensor:
    """Scores (..., n) with all but the k highest of each row set to −inf."""
    if k < 1:
        raise ValueError(f"k must be at least 1; got {k}. It is the number of keys that keep weight.")
    if k >= scores.shape[-1]:
        return scores
    least = scores.detach().topk(k).values.amin(-1, keepdim=True)  # (..., 1)
    above = ~(scores <= least)  # (..., n); a NaN is kept, to be seen
    level = scores == least
    places = k - above.sum(-1, keepdim=True)  # (..., 1), for those that are level
    return scores.masked_fill(~(above | (level & (level.cumsum(-1) <= places))), -torch.inf)


@register(sparse=True)
def top_k_softmax(scores: Tensor, k: int = 8) -> Tensor:
    """Map scores (..., n) to weights (..., n): softmax among the k highest."""
    return softmax(highest(scores, k))


@register(sparse=True)
def top_k_sparsemax(scores: Tensor, k: int = 8) -> Tensor:
    """Map scores (..., n) to weights (..., n): sparsemax among the k highest."""
    return sparsemax(highest(scores, k))
