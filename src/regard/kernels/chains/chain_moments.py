"""The operator of chains with any number of states: scores (..., n, s) to all that is expected of a row.

Moments (..., ns + s² + 1) are marginals, expected numbers of pairs, and log Z, in one tensor. The first two
are the derivatives of the last, and their own derivatives are covariances (`chain_covariance`).
"""

from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.kernels.chains.chain_operator import Two, chain_operator, covariances_of, summed, which
from regard.kernels.common.pool import load_kernels, over_rows

LEAST = 1 << 13  # elements that are worth a thread


class Moments(NamedTuple):
    """What is expected of each row."""

    marginals: Tensor  # (..., n, s)
    pairs: Tensor  # (..., s, s), how often each follows each
    log_partition: Tensor  # (...)


def split(moments: Tensor, n: int, s: int) -> Moments:
    """The three parts of moments (..., ns + s² + 1)."""
    marginals, pairs, log = moments.split([n * s, s * s, 1], -1)
    return Moments(marginals.unflatten(-1, (n, s)), pairs.unflatten(-1, (s, s)), log.squeeze(-1))


def joined(marginals: Tensor, pairs: Tensor, log: Tensor) -> Tensor:
    """And back."""
    return torch.cat([marginals.flatten(-2), pairs.flatten(-2), log.unsqueeze(-1)], -1)


def as_rows(scores: Tensor, transitions: Tensor) -> tuple[Any, Any, Any]:
    """Scores (rows, n, s), transitions (k, s, s), and which of them each row has, for the kernels."""
    *batch, n, s = scores.shape
    here, T = (t.detach().cpu().contiguous().numpy() for t in (scores, transitions))
    return here.reshape(prod(batch), n, s), T.reshape(-1, s, s), which(transitions, scores.shape[:-2])


def check_paths(totals: Any) -> None:
    """Require that no row's total (rows,), log Z or best score, is −inf."""
    if (totals == -np.inf).any():
        raise ValueError(
            f"transitions must leave a path through every row; row {int(totals.argmin())} has none. "
            "Forbid (by −inf) fewer transitions, or fewer states of its keys."
        )


def by_kernel(scores: Tensor, transitions: Tensor) -> Tensor:
    """Moments of scores (..., n, s)."""
    *batch, n, s = scores.shape
    rows = prod(batch)
    marginals, pairs, logs = np.empty((rows, n, s)), np.empty((rows, s, s)), np.empty(rows)
    arrays = *as_rows(scores, transitions), marginals, pairs, logs
    over_rows(
        load_kernels("regard.kernels.chains.chain_kernel").forward,
        rows,
        rows * n * s * s,
        *arrays,
        least=LEAST,
    )
    check_paths(logs)
    parts = [torch.from_numpy(t) for t in (marginals, pairs, logs)]
    return joined(*parts).view(*batch, n * s + s * s + 1).to(scores.device, scores.dtype)


def covariances_by_kernel(scores: Tensor, transitions: Tensor, g: Tensor, h: Tensor) -> Two:
    """From g (..., n, s) and h (..., s, s) the gradients of scores, and of transitions for each row."""
    *batch, n, s = scores.shape
    rows = prod(batch)
    to_scores, to_T = torch.empty(rows, n, s, dtype=scores.dtype), torch.empty(rows, s, s, dtype=scores.dtype)
    given = (t.detach().contiguous().numpy().reshape(rows, *t.shape[-2:]) for t in (g, h))
    arrays = *as_rows(scores, transitions), *given, to_scores.numpy(), to_T.numpy()
    kernel = load_kernels("regard.kernels.chains.chain_covariance").backward
    over_rows(kernel, rows, rows * n * s * s, *arrays, least=LEAST)
    return to_scores.view(scores.shape), to_T.view(*batch, s, s)


def _with_log(scores: Tensor, moments: Tensor, found: Two, a: Tensor) -> Two:
    """Add the gradient of a log Z."""
    mu, pairs, _ = split(moments, *scores.shape[-2:])
    a = a[..., None, None]
    return found[0] + a * mu, found[1] + a * pairs


def _back_by_kernel(scores: Tensor, transitions: Tensor, moments: Tensor, gradient: Tensor) -> Two:
    g, h, a = split(gradient, *scores.shape[-2:])
    found = covariances_by_kernel(scores, transitions, g, h)
    to_scores, to_T = _with_log(scores, moments, found, a)
    return to_scores, summed(to_T, transitions)


def _back(scores: Tensor, transitions: Tensor, moments: Tensor, gradient: Tensor) -> Two:
    g, h, a = split(gradient, *scores.shape[-2:])
    found = covariances_of(scores, transitions, g, h, moments)
    to_scores, to_T = _with_log(scores, moments, found, a)
    return to_scores, summed(to_T, transitions)


def _ahead(scores: Tensor, transitions: Tensor, moments: Tensor, ds: Tensor, dT: Tensor) -> Tensor:
    marginals, pairs = covariances_of(scores, transitions, ds, dT, moments)
    mu, N, _ = split(moments, *scores.shape[-2:])
    log = (mu * ds).sum((-1, -2)) + (N * dT).sum((-1, -2))
    return joined(marginals, pairs, log)


def _empty(scores: Tensor, transitions: Tensor) -> Tensor:
    *batch, n, s = scores.shape
    return scores.new_empty(*batch, n * s + s * s + 1)


_operator = chain_operator("chain_moments", by_kernel, _back_by_kernel, _back, _ahead, _empty)


def moments(scores: Tensor, transitions: Tensor) -> Moments:
    """The moments of scores (..., n, s), float32 or float64, and of transitions as in `chain_operator`."""
    return split(_operator(scores, transitions), *scores.shape[-2:])
