"""Kernel scores: θ is the logarithm of a dot product of features, which are never negative.

    θᵢⱼ = log(φ(qᵢ) · φ(kⱼ))        softmax(θ)ᵢⱼ = φ(qᵢ) · φ(kⱼ) / Σⱼ′ φ(qᵢ) · φ(kⱼ′)

so that softmax attention with such a score costs n · f · d (`backends/features.py`), not n² · d. What is in
the features may be a dot product's factors: rotary positions turn query and keys first.

Katharopoulos et al. (2020), "Transformers are RNNs", arXiv:2006.16236, §3.2.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.place import Place
from regard.scores.scaled_dot import ScaledDot
from regard.scores.score import Factored, Score


class Features(NamedTuple):
    """φ(q) = query · exp(query_log), φ(k) = keys · exp(keys_log); None stands for a logarithm of 0."""

    query: Tensor  # (..., m, f)
    keys: Tensor  # (..., n, f)
    query_log: Tensor | None = None  # (..., m)
    keys_log: Tensor | None = None  # (..., n)


class Kernel(Score):
    """A score by features of query and keys; a subclass defines `features` of the factors of `inner`."""

    per_pair = 2

    def __init__(self, inner: Callable[..., Tensor] | None = None):
        super().__init__()
        inner = ScaledDot(1.0) if inner is None else inner
        if not isinstance(inner, Factored):
            raise ValueError(
                f"{type(self).__name__} makes features of the factors of a dot product, and "
                f"{type(inner).__name__} has none: use dot, scaled_dot or rotary positions."
            )
        self.inner, self.uses_place = inner, inner.uses_place

    def features(self, query: Tensor, keys: Tensor) -> Features:
        """Of factors (..., m, d) and (..., n, d)."""
        raise NotImplementedError

    def of_call(self, query: Tensor, keys: Tensor, *place: Place) -> Features:
        """Of query (..., m, d_q) and keys (..., n, d_k) at their places."""
        if self.uses_place and not place:
            place = (Place.default(query.shape[-2], keys.shape[-2], query.device),)
        return self.features(*self.inner.factors(query, keys, *(place if self.uses_place else ())))

    def forward(self, query: Tensor, keys: Tensor, *place: Place) -> Tensor:
        """Score query (..., m, d_q) against keys (..., n, d_k): (..., m, n)."""
        found = self.of_call(query, keys, *place)
        product = found.query @ found.keys.mT
        theta = torch.where(product > 0, torch.where(product > 0, product, 1).log(), -torch.inf)
        theta = theta if found.query_log is None else theta + found.query_log.unsqueeze(-1)
        return theta if found.keys_log is None else theta + found.keys_log.unsqueeze(-2)

    def encoded(self, keys: Tensor, positions: Tensor | range) -> Tensor | None:
        return self.inner.encoded(keys, positions)
