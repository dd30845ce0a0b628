"""Values as functions: V(t) = Bᵀψ(t), fitted to the values at their positions by ridge regression.

    B = GV,   G = (ΨᵀΨ + λI)⁻¹Ψᵀ,   Ψ: one row ψ(t) per position        z = E_p[V(t)] = rᵀGV,   r = E_p[ψ]

so the weights of the values are Gᵀr. G (N, n) depends on the positions only and is cached; no tensor has size
positions × positions.

On the line, the L visible keys are at (k + ½)/L in their order, as if the others did not exist: G depends on
L only. In a plane of h × w cells, each key is at the centre of its cell, ((i + ½)/h, (j + ½)/w), whether or
not other keys are masked.

Martins et al. (2020), "Sparse and Continuous Attention Mechanisms", arXiv:2006.07214.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from regard.continuous.basis import Basis

SHORT = 1024  # G is cached for all lengths up to this, and for 8 longer ones


def features(length: int, number: int) -> Tensor:
    """Ψ (L, N) at L even positions from 0 to 1, with N functions."""
    t = (torch.arange(length, dtype=torch.float64, device="cpu") + 0.5) / length
    return Basis.even(number, t.new_full((1,), 1 / max(length, 1)))(t)


def line_fit(length: int, number: int, ridge: float) -> Tensor:
    """G (N, L) of L even positions from 0 to 1, with N functions."""
    return (_short if length <= SHORT else _long)(length, number, ridge)


@lru_cache(maxsize=SHORT)
def _short(length: int, number: int, ridge: float) -> Tensor:
    psi = features(length, number)
    return _ridged(psi.mT @ psi, ridge) @ psi.mT


@lru_cache(maxsize=8)
def _long(length: int, number: int, ridge: float) -> Tensor:
    return _short.__wrapped__(length, number, ridge)


def _ridged(gram: Tensor, ridge: float) -> Tensor:
    ridged: Tensor = torch.linalg.inv(
        gram + ridge * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    )
    return ridged


def on_line(x: Tensor, visible: Tensor, back: bool, number: int, ridge: float) -> Tensor:
    """Gᵀr (rows, n) of r (rows, N), or (back) Gg (rows, N) of g (rows, n), for visible keys (rows, n)."""
    rows, n = visible.shape
    if bool(visible.all()):
        return _one_length(x, n, back, number, ridge)
    rank = visible.cumsum(-1)  # (rows, n), from 1
    if back:
        x = x.new_zeros(rows, n + 1).scatter(-1, torch.where(visible, rank, 0), x)[:, 1:]  # without gaps
    answer = x.new_zeros(rows, number if back else n)
    for length, group in zip(*_runs(*rank[:, -1].sort()), strict=True):
        if not length:
            continue
        if back:
            answer[group] = _one_length(x[group, :length], length, back, number, ridge)
        else:
            answer[group, :length] = _one_length(x[group], length, back, number, ridge)
    return answer if back else torch.where(visible, answer.gather(-1, (rank - 1).clamp(min=0)), 0)


def _runs(kinds: Tensor, order: Tensor) -> tuple[list[int], list[Tensor]]:
    """The distinct values of the sorted kinds, and the rows of each."""
    distinct, counts = kinds.unique_consecutive(return_counts=True)
    return distinct.tolist(), list(order.split(counts.tolist()))


def _one_length(x: Tensor, length: int, back: bool, number: int, ridge: float) -> Tensor:
    fit = line_fit(length, number, ridge).to(x.device)
    return x @ fit.mT if back else x @ fit


@lru_cache(maxsize=64)
def _plane_inverse(pattern: bytes, height: int, width: int, number: int, ridge: float) -> Tensor:
    """(ΨᵀΨ + λI)⁻¹ (N², N²) for the cells of a plane whose bits are set."""
    bits = np.unpackbits(np.frombuffer(pattern, np.uint8), count=height * width)
    visible = torch.from_numpy(bits).view(height, width).double()
    pairs = []
    for length in (height, width):
        psi = features(length, number)
        pairs.append((psi.unsqueeze(-1) * psi.unsqueeze(-2)).flatten(-2))  # (h or w, N²)
    down, across = pairs
    gram = (down.mT @ (visible @ across)).view(number, number, number, number)  # i, i', j, j'
    return _ridged(gram.transpose(1, 2).reshape(number**2, number**2), ridge)  # (i, j), (i', j')


def in_plane(
    x: Tensor, visible: Tensor, back: bool, number: int, ridge: float, height: int, width: int
) -> Tensor:
    """As `on_line`, for n = h·w cells and N² functions."""
    if bool(visible.all()):
        pattern = np.packbits(np.ones(height * width, bool))
        return _one_mask(x, pattern, back, number, ridge, height, width)
    patterns, which = np.unique(
        np.packbits(visible.cpu().numpy(), -1), axis=0, return_inverse=True
    )  # (distinct, bytes), (rows,)
    x = torch.where(visible, x, 0) if back else x
    answer = x.new_zeros(len(visible), number**2 if back else height * width)
    for kind, group in zip(*_runs(*torch.from_numpy(which.reshape(-1)).to(x.device).sort()), strict=True):
        if patterns[kind].any():
            answer[group] = _one_mask(x[group], patterns[kind], back, number, ridge, height, width)
    return answer if back else torch.where(visible, answer, 0)


def _one_mask(
    x: Tensor, pattern: np.ndarray, back: bool, number: int, ridge: float, height: int, width: int
) -> Tensor:
    small = _plane_inverse(pattern.tobytes(), height, width, number, ridge).to(x.device)
    down, across = (features(length, number).to(x.device) for length in (height, width))
    if back:
        return (down.mT @ x.view(-1, height, width) @ across).flatten(-2) @ small
    return (down @ (x @ small).view(-1, number, number) @ across.mT).flatten(-2)
