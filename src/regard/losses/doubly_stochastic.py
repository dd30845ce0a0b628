"""Doubly stochastic penalty: over all steps, the total weight of every key should be about 1.

    λ Σⱼ (1 − Σₜ pₜⱼ)²

The weights of each step sum to 1 over the keys; this penalty asks the same over the steps, so that a caption
covers every part of an image. It is added to the loss of the words.

Xu et al. (2015), "Show, Attend and Tell", arXiv:1502.03044, §4.2.1.
"""

import torch
from torch import Tensor

from regard.core.shapes import check, check_float, widened
from regard.losses.fenchel_young import Reduction
from regard.masks import Mask, as_mask


def doubly_stochastic_penalty(
    weights: Tensor,
    strength: float = 1.0,
    *,
    mask: Mask | Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """λ Σⱼ (1 − Σₜ pₜⱼ)² of weights (..., T, n) of T steps: (...), reduced (); λ is `strength`.

    The mask broadcasts to (..., T, n), like the mask of the attention: masked weights count as 0, and a key
    masked in all steps does not count. From masks of real steps (..., T) and real keys (..., n) it is
    steps[..., None] & keys[..., None, :].
    """
    check_float("weights", weights)
    check("weights", weights, "... T n")
    if not strength >= 0:
        raise ValueError(f"strength must be at least 0; got {strength}.")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f'reduction must be "mean", "sum" or "none"; got {reduction!r}.')
    p, (steps, n) = widened(weights), weights.shape[-2:]
    if mask is None:
        missing = 1 - p.sum(-2)  # (..., n)
    else:
        visible = as_mask(mask).rows(0, steps, steps, n, weights.dim() - 2, weights.device)
        visible = visible.expand(*visible.shape[:-2], steps, n)
        missing = torch.where(visible.any(-2), 1 - torch.where(visible, p, 0).sum(-2), 0)
    penalty = strength * missing.square().sum(-1)  # (...)
    if reduction != "none":
        penalty = penalty.sum() / (max(penalty.numel(), 1) if reduction == "mean" else 1)
    return penalty.to(weights.dtype)
