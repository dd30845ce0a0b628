"""The operator of binary chains: scores (..., n) of state 1 to weights (..., n)."""

from typing import Any

import torch
from torch import Tensor

from regard.kernels.chains.chain_moments import LEAST, by_kernel, covariances_by_kernel, split
from regard.kernels.chains.chain_operator import Two, chain_operator, covariances_of, summed, which
from regard.kernels.common.pool import load_kernels, over_rows


def two_states(scores: Tensor) -> Tensor:
    """Scores (..., n, 2) of both states: state 0 has 0, or −inf at hidden keys."""
    return torch.stack([torch.zeros_like(scores).masked_fill(scores == -torch.inf, -torch.inf), scores], -1)


def _gradients(g: Tensor) -> Tensor:
    return torch.stack([torch.zeros_like(g), g], -1)


def _matrices(transitions: Tensor) -> tuple[Any, bool]:
    """Transitions as (k, 2, 2), and whether they are for `chain_binary`."""
    T = transitions.detach().cpu().contiguous().numpy().reshape(-1, 2, 2)
    return T, load_kernels("regard.kernels.chains.chain_kernel").all_narrow(T)


def _run(scores: Tensor, transitions: Tensor) -> Tensor:
    here, n = scores.detach().cpu().contiguous(), scores.shape[-1]
    weights = torch.empty_like(here)
    if size := here.numel():
        T, narrow = _matrices(transitions)
        if not narrow:
            return split(by_kernel(two_states(scores), transitions), n, 2).marginals[..., 1].contiguous()
        arrays = (
            here.numpy().reshape(-1, n),
            T,
            which(transitions, here.shape[:-1]),
            weights.numpy().reshape(-1, n),
        )
        over_rows(
            load_kernels("regard.kernels.chains.chain_binary").forward, size // n, size, *arrays, least=LEAST
        )
    return weights.to(scores.device)


def _back_by_kernel(scores: Tensor, transitions: Tensor, weights: Tensor, gradient: Tensor) -> Two:
    scores, g = scores.detach().contiguous(), gradient.detach().contiguous()
    n, batch = scores.shape[-1], scores.shape[:-1]
    to_scores, to_T = torch.empty_like(scores), torch.zeros(*batch, 2, 2, dtype=scores.dtype)
    if size := scores.numel():
        T, narrow = _matrices(transitions)
        if narrow:
            rows, given, out = (t.numpy().reshape(-1, n) for t in (scores, g, to_scores))
            arrays = rows, T, which(transitions, batch), given, out, to_T.numpy().reshape(-1, 2, 2)
            over_rows(
                load_kernels("regard.kernels.chains.chain_binary").backward,
                size // n,
                size,
                *arrays,
                least=LEAST,
            )
        else:
            both, to_T = covariances_by_kernel(
                two_states(scores), transitions, _gradients(g), torch.zeros_like(to_T)
            )
            to_scores = both[..., 1]
    return to_scores, summed(to_T, transitions)


def _back(scores: Tensor, transitions: Tensor, weights: Tensor, gradient: Tensor) -> Two:
    none = torch.zeros_like(transitions)
    both, to_T = covariances_of(two_states(scores), transitions, _gradients(gradient), none, weights)
    return both[..., 1], summed(to_T, transitions)


def _ahead(scores: Tensor, transitions: Tensor, weights: Tensor, ds: Tensor, dT: Tensor) -> Tensor:
    return covariances_of(two_states(scores), transitions, _gradients(ds), dT, weights)[0][..., 1]


def _empty(scores: Tensor, transitions: Tensor) -> Tensor:
    return torch.empty_like(scores, memory_format=torch.contiguous_format)


weights = chain_operator("chain_weights", _run, _back_by_kernel, _back, _ahead, _empty)
