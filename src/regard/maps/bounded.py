"""Bounded maps: no key gets more weight than its upper limit u, its fertility.

    softmax    π(θ) = argmax_{p ∈ Δⁿ, p ≤ u} pᵀθ − Σⱼ pⱼ log pⱼ = min(u, exp(θ − τ))
    sparsemax  π(θ) = argmin_{p ∈ Δⁿ, p ≤ u} ‖p − θ‖²         = min(u, [θ − τ]₊)

with τ such that Σⱼ pⱼ = 1. Keys at their limit have weight uⱼ; the others share what is left as by the map
itself. If the limits of a row sum to less than 1, every key is at its limit and the weights sum to Σⱼ uⱼ:
what is missing has gone to a sink that holds nothing. A limit of 1 or more is none (so is the default), one
below 0 counts as 0. With limits of their own, a key of higher score can have the lower weight.

Which keys are at 0, free, or at their limit is found by sorting, in float64; the weights are closed forms
in scores and limits given these sets, and so are their derivatives.

Martins & Kreutzer (2017), "Learning What's Easy: Fully Differentiable Neural Easy-First Taggers" (softmax);
Malaviya, Ferreira & Martins (2018), "Sparse and Constrained Attention for Neural Machine Translation",
arXiv:1805.08241 (sparsemax, fertilities, the sink).
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.core.errors import ShapeError
from regard.core.shapes import check, check_float, check_together
from regard.maps.softmax import softmax
from regard.maps.sparsemax import sparsemax
from regard.maps.table import register

Map = Callable[[Tensor], Tensor]
Limited = Callable[[Tensor, Tensor], Tensor]  # scores and limits, both (..., n), to weights


def _bounded(scores: Tensor, upper: float | Tensor, plain: Map, limited: Limited) -> Tensor:
    """Weights by `limited`, of scores with their top at 0 and limits from 0 to 1; without limits by `plain`.

    Rows that no map can use are NaN.
    """
    check_float("scores", scores)
    check("scores", scores, "... n")
    if scores.shape[-1] == 0 or (not isinstance(upper, Tensor) and upper >= 1):
        return plain(scores)
    if isinstance(upper, Tensor):
        check_together(scores=scores, upper=upper)
    else:
        upper = torch.full((), upper, dtype=torch.float64, device=scores.device)
    try:
        upper = upper.expand_as(scores).double()
    except RuntimeError:
        raise ShapeError(
            f"upper must broadcast to scores {tuple(scores.shape)}; got {tuple(upper.shape)}. "
            "Give one limit for all keys, or one for each."
        ) from None
    theta = scores.double()
    top = theta.detach().amax(-1, keepdim=True)  # (..., 1)
    top = torch.where(top == -torch.inf, 0, top)
    limits = torch.where(theta == -torch.inf, 0, upper.clamp(0, 1))  # (..., n), hidden keys get nothing
    flaw = top - top + 0 * limits.detach().sum(-1, keepdim=True)  # (..., 1), 0 or NaN
    return (limited(theta - top, limits) + flaw).to(scores.dtype)


def _at_limit(theta: Tensor, limits: Tensor) -> Tensor:
    """Which keys (..., n) bounded softmax holds at their limit: those of highest θ − log u."""
    low_first = limits.sort(dim=-1, stable=True).indices  # where θ is so large that log u is lost in it
    ratio = torch.where(theta == -torch.inf, torch.inf, theta - limits.log()).gather(-1, low_first)
    order = low_first.gather(-1, ratio.sort(dim=-1, descending=True, stable=True).indices)  # (..., n)
    theta, limits = theta.gather(-1, order), limits.gather(-1, order)
    left = (1 - (limits.cumsum(-1) - limits)).clamp(min=0)  # (..., n), by those before at their limit
    rest = theta.flip(-1).logcumsumexp(-1).flip(-1)  # (..., n), of this key and those after
    at_limit = ~(left * (theta - rest).exp() <= limits)  # its share of what is left is more, or it is hidden
    return torch.zeros_like(at_limit).scatter(-1, order, at_limit)


def _free_and_limited(theta: Tensor, limits: Tensor) -> tuple[Tensor, Tensor]:
    """Which keys (..., n) of bounded sparsemax are between 0 and their limit, and which are at it.

    As τ falls, a key enters at θⱼ, gains weight, and is at its limit from θⱼ − uⱼ on. Gaps between scores
    that are wider than any limit are narrowed first: no weight changes, and u is not lost in a large θ.
    """
    n = theta.shape[-1]
    theta = torch.where(theta == -torch.inf, 0, theta)  # hidden keys, of limit 0, enter and leave at once
    theta, order = theta.sort(-1, descending=True)
    limits = limits.gather(-1, order)
    theta = -pad((theta[..., :-1] - theta[..., 1:]).clamp(max=2).cumsum(-1), (1, 0))
    levels, which = torch.cat([theta, theta - limits], -1).sort(-1, descending=True)  # (..., 2n)
    growing = torch.where(which < n, 1, -1).cumsum(-1)[..., :-1]  # (..., 2n − 1), free keys below each level
    total = (growing * (levels[..., :-1] - levels[..., 1:])).cumsum(-1)  # the weight at the next level
    level = levels.gather(-1, (total < 1).sum(-1, keepdim=True))  # (..., 1), the last where it is less than 1
    limited = theta - limits >= level
    free = (theta >= level) & ~limited
    nowhere = torch.zeros_like(free)
    return nowhere.scatter(-1, order, free), nowhere.scatter(-1, order, limited)


def _limited_softmax(theta: Tensor, limits: Tensor) -> Tensor:
    at_limit = _at_limit(theta.detach(), limits.detach())
    left = (1 - torch.where(at_limit, limits, 0).sum(-1, keepdim=True)).clamp(min=0)  # (..., 1)
    return torch.where(at_limit, limits, left * softmax(torch.where(at_limit, -torch.inf, theta)))


def _limited_sparsemax(theta: Tensor, limits: Tensor) -> Tensor:
    free, at_limit = _free_and_limited(theta.detach(), limits.detach())
    theta = torch.where(free, theta, 0)
    theta = torch.where(free, theta - theta.detach().amin(-1, keepdim=True), 0)  # (..., n), from 0 to 1
    left = 1 - torch.where(at_limit, limits, 0).sum(-1, keepdim=True)  # (..., 1)
    tau = (theta.sum(-1, keepdim=True) - left) / free.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(at_limit, limits, torch.where(free, (theta - tau).clamp(min=0), 0))


@register(guard=False)
def bounded_softmax(scores: Tensor, upper: float | Tensor = 1.0) -> Tensor:
    """Map scores (..., n) to weights (..., n) of at most `upper`, which broadcasts to them."""
    return _bounded(scores, upper, softmax, _limited_softmax)


@register(sparse=True, guard=False)
def bounded_sparsemax(scores: Tensor, upper: float | Tensor = 1.0) -> Tensor:
    """Map scores (..., n) to weights (..., n) of at most `upper`, which broadcasts to them."""
    return _bounded(scores, upper, sparsemax, _limited_sparsemax)
