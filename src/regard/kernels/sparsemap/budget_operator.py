"""SparseMAP of a budget as an operator: the kernel, its Jacobian, and the map in torch for other devices."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.kernels.row_maps.row_operator import row_operator


def by_sorting(scores: Tensor, k: int) -> Tensor:
    """The map for devices without a kernel: scores (..., n) to weights (..., n).

    As τ falls a key enters at θⱼ and is at 1 from θⱼ − 1 on. Gaps between scores are narrowed to 2 first: no
    weight changes, and none is lost beside a large score.
    """
    n, inside = scores.shape[-1], scores.clamp(0, 1)
    theta, order = scores.clamp(min=0).sort(-1, descending=True)
    theta = -pad((theta[..., :-1] - theta[..., 1:]).clamp(max=2).cumsum(-1), (1, 0))
    levels, which = torch.cat([theta, theta - 1], -1).sort(-1, descending=True)  # (..., 2n)
    growing = torch.where(which < n, 1, -1).cumsum(-1)[..., :-1]  # (..., 2n − 1), free keys below each level
    total = (growing * (levels[..., :-1] - levels[..., 1:])).cumsum(-1)  # what is spent at the next level
    level = levels.gather(-1, (total < k).sum(-1, keepdim=True))  # (..., 1), the last where it is less than k
    ones = theta - 1 >= level
    free = (theta >= level) & ~ones
    tau = torch.where(free, theta, 0).sum(-1, keepdim=True) + ones.sum(-1, keepdim=True) - k
    shared = (theta - tau / free.sum(-1, keepdim=True).clamp(min=1)).clamp(0, 1)
    weights = torch.where(
        inside.sum(-1, keepdim=True) > k, torch.zeros_like(theta).scatter(-1, order, shared), inside
    )
    flaw = torch.where(scores == -torch.inf, 0, scores - scores).sum(-1, keepdim=True)  # 0, or NaN if one is
    return weights + flaw


def jacobian_product(mu: Tensor, g: Tensor, k: int) -> Tensor:
    """J g at weights μ (..., n), for g (..., n)."""
    free = (mu > 0) & (mu < 1)
    inside = torch.where(free, g, 0)
    slack = 4 * (torch.finfo(mu.dtype).eps * k + torch.finfo(torch.float64).eps * mu.shape[-1])
    spent = mu.double().sum(-1, keepdim=True) >= k - slack  # (..., 1)
    mean = inside.sum(-1, keepdim=True) / free.sum(-1, keepdim=True).clamp(min=1)
    answer = torch.where(free, inside - torch.where(spent, mean, 0), 0)
    return torch.where(mu.isnan(), torch.nan, answer)


nearest_in_budget = row_operator(
    "sparsemap_budget",
    kernels="regard.kernels.sparsemap.budget_kernel",
    product=jacobian_product,
    reference=by_sorting,
    flops=20,
    k=int,
)
