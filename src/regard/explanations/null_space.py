"""How weights can change without changing the output: the left null space of the transformed values.

    z = A T        T = (X W_V + b_V) W_O        (A + N) T = A T   whenever   N T = 0

T is (n, d) but has rank at most d_v, the width of a head (one lecture says d): with more tokens than that,
rows of N can be anything in a space of n − rank T dimensions, one less if the rows of A + N are to sum to 1
as well. So weights are not identifiable from the output.

Brunner et al. (2020), "On Identifiability in Transformers", arXiv:1908.04211, §3.
"""

import torch
from torch import Tensor


def column_projector(transformed: Tensor) -> Tensor:
    """P (..., n, n), onto the space of the columns of T (..., n, d): P T = T, and x P = 0 if x T = 0."""
    U, s, _ = torch.linalg.svd(transformed, full_matrices=False)  # (..., n, r), (..., r)
    U = U * _counts(s, transformed).unsqueeze(-2)
    projector: Tensor = U @ U.mT
    return projector


def freedom(transformed: Tensor) -> Tensor:
    """The dimensions (...) in which a row of weights can move, sum and output kept: T (..., n, d)."""
    extended = _with_ones(transformed)
    s = torch.linalg.svdvals(extended)
    return extended.shape[-2] - _counts(s, extended).sum(-1).long()


def other_weights(weights: Tensor, transformed: Tensor, *, seed: int) -> Tensor:
    """Other weights (..., m, n) with the same output for T (..., n, d): rows at least 0, with the same sums.

    Each row goes in a random direction inside the null space until a weight would fall below 0.
    """
    noise = torch.randn(weights.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    T = _with_ones(transformed.double())
    away = noise.to(weights.device)
    for _ in range(2):  # once more: what rounding left
        away = away - away @ column_projector(T)
    away = torch.where(away.norm(dim=-1, keepdim=True) > 1e-8, away, 0)  # no null space, no direction
    room = torch.where(away < 0, weights.double() / -away.clamp(max=0), float("inf")).amin(-1, keepdim=True)
    step = torch.where(room.isfinite(), room, 0)
    return (weights + step * away).clamp(min=0).to(weights.dtype)


def _with_ones(transformed: Tensor) -> Tensor:
    """[T, 1], the column of ones scaled to the longest column of T, so that neither is lost in rounding."""
    scale = transformed.norm(dim=-2).amax(-1, keepdim=True).unsqueeze(-1) / transformed.shape[-2] ** 0.5
    ones = torch.where(scale > 0, scale, 1).expand(*transformed.shape[:-1], 1)
    return torch.cat([transformed, ones], -1)


def _counts(s: Tensor, matrix: Tensor) -> Tensor:
    """1 for the singular values that are not 0 to rounding, else 0."""
    least = s.amax(-1, keepdim=True) * max(matrix.shape[-2:]) * torch.finfo(s.dtype).eps
    return (s > least).to(s.dtype)
