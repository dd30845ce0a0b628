"""The covariances of a chain in differentiable torch: for second derivatives, transforms and the compiler.

The recursions of `chain` and `chain_covariance` as prefix products of matrices, which torch multiplies in
about 2 log₂ n steps of whole tensors: time and memory grow linearly with n, and there is no loop over
positions. A hidden key is a copy of the visible one before it (at the beginning, of the one after), which
takes it out.
"""

from collections.abc import Callable

import torch
from torch import Tensor

NEVER = -1e9  # a logarithm whose exponential is 0, and whose derivatives are, too
Parts = tuple[Tensor, ...]


def scan(combine: Callable[[Parts, Parts], Parts], parts: Parts) -> Parts:
    """All x₀, x₀∘x₁, x₀∘x₁∘x₂, … of an associative ∘, along the third axis from the end of each part."""
    n = parts[0].shape[-3]
    if n < 2:
        return parts
    even, odd = (tuple(p[..., k::2, :, :] for p in parts) for k in (0, 1))
    half = n // 2
    twos = scan(combine, combine(tuple(p[..., :half, :, :] for p in even), odd))  # to 1, 3, 5, …
    later = tuple(p[..., 1:, :, :] for p in even)
    before = tuple(t[..., : later[0].shape[-3], :, :] for t in twos)
    evens = combine(before, later) if later[0].shape[-3] else later  # to 2, 4, 6, …
    answer = []
    for p, two, more in zip(parts, twos, evens, strict=True):
        rest = torch.cat([p[..., :1, :, :], more], -3)
        mixed = torch.stack([rest[..., :half, :, :], two], -3).flatten(-4, -3)
        answer.append(torch.cat([mixed, rest[..., half:, :, :]], -3))
    return tuple(answer)


def _in_logs(first: Parts, second: Parts) -> Parts:
    product = torch.logsumexp(first[0].unsqueeze(-1) + second[0].unsqueeze(-3), -2)  # (..., s, s)
    return (product - product.detach().amax((-1, -2), keepdim=True),)  # a constant is of no interest


def _affine(first: Parts, second: Parts) -> Parts:
    (M, v), (M2, v2) = first, second
    return M2 @ M, M2 @ v + v2


def recur(M: Tensor, v: Tensor) -> Tensor:
    """xᵢ = Mᵢxᵢ₋₁ + vᵢ from x₋₁ = 0, for M (..., n, s, s) and v (..., n, s)."""
    return scan(_affine, (M, v.unsqueeze(-1)))[1].squeeze(-1)


def covariances(theta: Tensor, T: Tensor, g: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """What `chain_covariance.backward` does, for theta, g (..., n, s) and T, h (..., s, s) of each row."""
    n, s = theta.shape[-2:]
    if theta.numel() == 0:
        return torch.zeros_like(theta), torch.zeros_like(T + h)
    seen = (theta > -torch.inf).any(-1)  # (..., n)
    began = seen.cumsum(-1) > 0
    step = (began[..., :-1] & seen[..., 1:])[..., None, None]  # (..., n − 1, 1, 1): from one key to another
    seen = seen.unsqueeze(-1)
    theta = torch.where(seen, theta, 0).clamp(min=NEVER)
    T, h, g = T.clamp(min=NEVER).unsqueeze(-3), h.unsqueeze(-3), torch.where(seen, g, 0)
    same = torch.eye(s, dtype=torch.bool, device=theta.device)
    stay = torch.zeros_like(T).masked_fill(~same, NEVER)

    start = theta[..., :1, None, :].expand(*theta.shape[:-2], 1, s, s)
    steps = torch.where(step, T, stay) + theta[..., 1:, None, :]  # (..., n − 1, s, s)
    alpha = scan(_in_logs, (torch.cat([start, steps], -3),))[0][..., 0, :]  # (..., n, s), logarithms
    Q = torch.where(step, torch.softmax(alpha[..., :-1, :, None] + T, -2), same.to(theta.dtype))
    Qs = torch.cat([torch.zeros_like(start), Q], -3)  # (..., n, s, s), Qs[i] from i to i − 1
    Q0 = torch.cat([Q, torch.zeros_like(start)], -3)

    last = torch.softmax(alpha[..., -1:, :], -1)
    mu = torch.cat([torch.zeros_like(theta[..., 1:, :]), last], -2)
    mu = recur(Q0.flip(-3), mu.flip(-2)).flip(-2)  # (..., n, s)
    h = torch.where(step, h, 0)  # (..., n − 1, s, s)
    pairs = Q * mu[..., 1:, None, :]
    h = h - (pairs * h).sum((-1, -2), keepdim=True)
    lean = mu * (g - (mu * g).sum(-1, keepdim=True))
    nothing = torch.zeros_like(theta[..., :1, :])
    x = recur(Qs.mT, g + torch.cat([nothing, (Q * h).sum(-2)], -2))
    c = x - (mu * x).sum(-1, keepdim=True)
    u = recur(Q0.flip(-3), (lean + torch.cat([(pairs * h).sum(-1), nothing], -2)).flip(-2)).flip(-2)
    to_theta = torch.where(seen, mu * c + u - lean, 0)
    both = pairs * (c[..., :-1, :, None] + h) + Q * u[..., 1:, None, :]
    return to_theta, torch.where(step, both, 0).sum(-3)
