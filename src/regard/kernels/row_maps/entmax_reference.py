"""α-entmax in torch, for devices without a kernel: the two problems of the kernels, for all rows at once."""

import torch
from torch import Tensor

NEWTON = 16  # steps; each is from one side of the root and doubles the digits once they are near


def weights_le2(u: Tensor, beta: Tensor) -> Tensor:
    """Weights of u (..., n), whose maximum is 0, for beta (..., 1) between 0 and 1."""
    b = beta.clamp(min=1e-20)
    lam = torch.zeros_like(b)
    for step in range(NEWTON):
        y = b * (u - lam)
        inside = y > -1
        p = torch.where(inside, (torch.where(inside, y, 0).log1p() / b).exp(), 0)
        total = p.sum(-1, keepdim=True)
        if step < NEWTON - 1:
            s = (p / torch.where(inside, 1 + y, 1)).sum(-1, keepdim=True)
            lam = lam + -torch.expm1(-b * total.log()) / b * total / s
    return p / total


def weights_gt2(u: Tensor, beta: Tensor) -> Tensor:
    """Weights of u (..., n), whose maximum is 0, for beta (..., 1) above 1."""
    r = 1 / beta
    order = u.sort(-1, descending=True).values
    low = torch.zeros_like(beta, dtype=torch.long)  # (..., 1): in the support
    high = torch.full_like(low, u.shape[-1])  # out of it
    for _ in range(u.shape[-1].bit_length()):
        middle = (low + high) // 2
        above = (beta * (order - order.gather(-1, middle))).clamp(min=0)
        fits = (above > 0).to(u.dtype).mul(above**r).sum(-1, keepdim=True) < 1
        low, high = torch.where(fits, middle, low), torch.where(fits, high, middle)
    last = order.gather(-1, low)
    inside = u >= last
    a = torch.where(u > last, (beta * (u - last)).clamp(min=torch.finfo(u.dtype).tiny) ** r, 0)
    pi = 1 / inside.sum(-1, keepdim=True).to(u.dtype)
    for _ in range(4 * NEWTON):
        larger, smaller = torch.maximum(a, pi), torch.minimum(a, pi)
        p = torch.where(inside, larger * (((smaller / larger) ** beta).log1p() * r).exp(), 0)
        total = p.sum(-1, keepdim=True)
        slope = torch.where(inside, (pi / torch.where(inside, p, 1)) ** (beta - 1), 0).sum(-1, keepdim=True)
        pi = (pi - (total - 1) / slope).clamp(min=0)
    return p / total


def entmax_reference(scores: Tensor, alpha: Tensor) -> Tensor:
    """Weights (..., n) of scores (..., n) for alpha (..., 1)."""
    top = scores.amax(-1, keepdim=True)
    u = torch.where(top == -torch.inf, 0, scores - top)
    beta = (alpha - 1).to(u.dtype)
    p = weights_le2(u, beta.clamp(max=1))
    if torch.compiler.is_compiling() or beta.is_meta or bool((beta > 1).any()):
        p = torch.where(beta > 1, weights_gt2(u, torch.where(beta.isfinite(), beta, 1e30).clamp(min=1)), p)
    return torch.where(top == -torch.inf, 0, torch.where(alpha >= 1, p, torch.nan))
