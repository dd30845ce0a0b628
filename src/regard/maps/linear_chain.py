"""The distribution behind chain attention: marginals, partition function, entropy, best assignment, samples.

    p(z) = exp(s(z)) / Z,      s(z) = Σᵢ θᵢ[zᵢ] + Σᵢ T[zᵢ, zᵢ₊₁],      Z = Σ_z exp s(z)

over assignments z of a state to every visible key. The gradient of log Z in θ is the marginals, and the
entropy is log Z − E[s(z)].

Kim, Denton, Hoang & Rush (2017), arXiv:1702.00887; Lafferty, McCallum & Pereira (2001), "Conditional Random
Fields".
"""

from functools import cached_property
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import DtypeError, ShapeError
from regard.core.shapes import check, check_float, widened
from regard.kernels.chains.chain_moments import LEAST, Moments, as_rows, check_paths, moments
from regard.kernels.chains.chain_weights import two_states
from regard.kernels.chains.transitions import check_states, matched
from regard.kernels.common.pool import over_rows


class LinearChain:
    """The chain of scores (..., n), binary, or (..., n, s) with states=s; transitions as in `chain`.

    Hidden keys (−inf, in all states) have no part in it. A row of nothing has one assignment, the empty one:
    its log_partition and entropy are 0, its marginals 0, and best and sample give −1, as at every hidden
    key. A NaN gives NaN, or −1 where states are asked for. Everything is computed in float64 and comes in
    the scores' dtype.
    """

    def __init__(
        self, scores: Tensor, transitions: float | Tensor = 1.0, *, states: int | None = None
    ) -> None:
        check_float("scores", scores)
        s = check_states(states)
        if states is None:
            check("scores", scores, "... n")
        else:
            check("scores", scores, "... n s", s=s)
        wide = scores.double() if scores.is_cpu else widened(scores)
        self.states, self.dtype = s, scores.dtype
        self.transitions = matched(transitions, wide, states)  # (..., s, s)
        self.scores = two_states(wide) if states is None else wide  # (..., n, s)

    @cached_property
    def _moments(self) -> Moments:
        return moments(self.scores, self.transitions)

    @property
    def marginals(self) -> Tensor:
        """p(zᵢ = a): (..., n, s), 0 at hidden keys."""
        return self._moments.marginals.to(self.dtype)

    @property
    def weights(self) -> Tensor:
        """p(zᵢ = s − 1): (..., n), what `chain` gives by default; of a binary chain, p(zᵢ = 1)."""
        return self.marginals[..., -1]

    @property
    def pairs(self) -> Tensor:
        """How many neighbours in states (a, b) are expected: (..., s, s), the gradient of log Z in T."""
        return self._moments.pairs.to(self.dtype)

    @property
    def log_partition(self) -> Tensor:
        """log Z: (...), differentiable."""
        return self._moments.log_partition.to(self.dtype)

    @property
    def entropy(self) -> Tensor:
        """−E[log p(z)]: (...), differentiable."""
        mu, pairs, log = self._moments
        expected = (_finite(self.scores) * mu).sum((-1, -2)) + (_finite(self.transitions) * pairs).sum(
            (-1, -2)
        )
        return (log - expected).to(self.dtype)

    def best(self) -> Tensor:
        """The most likely assignment: (..., n) int64, of the lowest states where there are several."""
        paths = torch.empty(self.scores.shape[:-1], dtype=torch.int64)
        rows, T, which = as_rows(self.scores, self.transitions)
        totals = torch.empty(len(rows), dtype=torch.float64).numpy()
        kernel = import_module("regard.kernels.chains.viterbi").best
        self._over_rows(kernel, rows, T, which, paths.numpy().reshape(rows.shape[:2]), totals)
        check_paths(totals)
        return paths.to(self.scores.device)

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Independent assignments: (count, ..., n) int64. `generator` is one of the CPU."""
        if count < 0:
            raise ValueError(f"count must be at least 0; got {count}.")
        check_paths(self._moments.log_partition.detach().cpu().reshape(-1).numpy())
        uniforms = torch.rand(count, *self.scores.shape[:-1], dtype=torch.float64, generator=generator)
        drawn = torch.empty(uniforms.shape, dtype=torch.int64)
        rows, T, which = as_rows(self.scores, self.transitions)
        shape = (count, *rows.shape[:2])
        kernel = import_module("regard.kernels.chains.chain_samples").draw
        self._over_rows(kernel, rows, T, which, uniforms.numpy().reshape(shape), drawn.numpy().reshape(shape))
        return drawn.to(self.scores.device)

    def log_prob(self, assignment: Tensor) -> Tensor:
        """log p(z) of assignments (..., n), which may have axes before those of the scores: (...).

        What they say of hidden keys does not count.
        """
        if assignment.dtype != torch.int64:
            raise DtypeError(f"assignment must be int64; got {assignment.dtype}. Use assignment.long().")
        *batch, n, s = self.scores.shape
        if assignment.dim() < len(batch) + 1 or assignment.shape[-len(batch) - 1 :] != (*batch, n):
            raise ShapeError(f"assignment must end in {(*batch, n)}; got {tuple(assignment.shape)}.")
        visible = (self.scores > -torch.inf).any(-1)  # (..., n)
        if bool((visible & ((assignment < 0) | (assignment >= s))).any()):
            raise ValueError(f"assignment must give every visible key a state from 0 to {s - 1}.")
        z = torch.where(visible, assignment, 0)  # (..., n)
        scores = self.scores.expand(*z.shape, s).gather(-1, z.unsqueeze(-1)).squeeze(-1)
        total = torch.where(visible, scores, 0).sum(-1)
        if n > 1:
            latest = torch.where(visible, torch.arange(n, device=z.device), -1).cummax(-1).values[..., :-1]
            step = visible[..., 1:] & (latest >= 0)  # (..., n − 1)
            before = z.gather(-1, latest.clamp(min=0).expand(*z.shape[:-1], n - 1))
            T = self.transitions.flatten(-2).expand(*z.shape[:-1], s * s)
            total = total + torch.where(step, T.gather(-1, before * s + z[..., 1:]), 0).sum(-1)
        return (total - self._moments.log_partition).to(self.dtype)

    def _over_rows(self, kernel: Any, rows: Any, *arrays: Any) -> None:
        if rows.size:
            over_rows(kernel, len(rows), rows.size * self.states, rows, *arrays, least=LEAST)


def _finite(x: Tensor) -> Tensor:
    return torch.where(x == -torch.inf, 0, x)
