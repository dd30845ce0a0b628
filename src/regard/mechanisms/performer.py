"""Performer: softmax attention estimated by positive orthogonal random features (FAVOR+).

    exp(q · k) = E_w[ φ_w(q) φ_w(k) ],    φ_w(x) = exp(w · x − ‖x‖²/2),    w ~ N(0, I)

z is then that of linear attention with f such features, n f d. Directions are orthogonal in groups of d and
have the lengths of normal vectors; the error falls as 1/√f. For numbers that cannot overflow, the largest
exponent is taken out: for a query its own, for keys that of all visible ones, and under a causal mask the
largest *so far*, never one of keys to come. Inside it is float32 at least.

Features are drawn when the module is made (setting `seed`), kept with its weights, and drawn again only by
`redraw(seed)`: evaluation does not change them.

`Attended.weights` are φ(q)ᵀφ(k), normalised: (..., heads, m, n), computed when somebody looks: an estimate of
the softmax weights.

Choromanski et al. (2021), "Rethinking Attention with Performers", arXiv:2009.14794, §2.3, 2.4.
Departs from the authors' code: no constant is added to the features.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.mechanisms.mechanism import KernelCore, Mechanism, at_least_one, register
from regard.positions import Rotary
from regard.scores import ScaledDot
from regard.scores.kernel import Features, Kernel
from regard.scores.score import Score


def orthogonal_features(features: int, width: int, seed: int) -> Tensor:
    """Directions w (features, width): orthogonal in groups of `width`, with the lengths of normal vectors."""
    generator = torch.Generator().manual_seed(seed)
    groups = []
    for _ in range(-(-features // width)):
        normal = torch.randn(width, width, generator=generator, dtype=torch.float64)
        Q, R = torch.linalg.qr(normal)
        groups.append((Q * R.diagonal().sign()).T)  # without the signs they are not uniform
    lengths = torch.randn(features, width, generator=generator, dtype=torch.float64).norm(dim=-1)
    found: Tensor = (torch.cat(groups)[:features] * lengths.unsqueeze(-1)).float()
    return found


class PositiveFeatures(Kernel):
    """exp(w · x − ‖x‖²/2) for each direction w."""

    w: Tensor

    def __init__(self, inner: Callable[..., Tensor], w: Tensor):
        super().__init__(inner)
        self.register_buffer("w", w)

    def features(self, query: Tensor, keys: Tensor) -> Features:
        found = []
        even = _scale(self.inner, query.shape[-1]) ** 0.5  # as much of the scale for keys as for queries
        for x in (query / even, keys * even):
            log = x @ self.w.to(x.dtype).T - x.square().sum(-1, keepdim=True) / 2  # (..., k, f)
            top = log.detach().amax(-1, keepdim=True)
            found.append(((log - top).exp(), top.squeeze(-1)))
        (q, q_log), (k, k_log) = found
        return Features(q, k, q_log, k_log)


def _scale(score: Score, width: int) -> float:
    """The factor that a score puts on the queries."""
    inner = score.score if isinstance(score, Rotary) else score
    if not isinstance(inner, ScaledDot):
        return 1.0
    return abs(width**-0.5 if inner.scale is None else inner.scale) or 1.0


class PerformerCore(KernelCore):
    """Attention by positive random features."""

    def __init__(self, each: int, heads: int, *, features: int = 128, seed: int = 0):
        super().__init__(each, heads)
        at_least_one(self.name, features=features)
        self.features, self.seed = features, seed

    def wrapped(self, score: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return PositiveFeatures(score, orthogonal_features(self.features, self.each, self.seed))

    def extra_repr(self) -> str:
        return f"features={self.features}, seed={self.seed}"


@register(exact=False, across=True)
class Performer(Mechanism):
    """Multi-head attention by positive random features."""

    core_kind = PerformerCore

    def redraw(self, seed: int) -> None:
        """Draw other features."""
        kernel = self.score
        assert isinstance(kernel, PositiveFeatures)
        features, width = kernel.w.shape
        kernel.w.copy_(orthogonal_features(features, width, seed))
