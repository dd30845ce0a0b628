"""Adaptive attention span: every head learns how far back it looks.

    p_ij = m_z(i − j) exp θ_ij / Σ_k m_z(i − k) exp θ_ik        m_z(x) = clamp((R + z − x) / R, 0, 1)

The ramp m multiplies the weights, which are normalised with it: that is the map of θ + log m. The loss has
the mean span z of all heads times `pull`, so that a head looks far only if it gains by it. Keys that no head
of a layer can reach are not computed: the layer attends through a window.

Sukhbaatar et al. (2019), "Adaptive Attention Span in Transformers", arXiv:1905.07799, §2.2.
Departs from the paper: rotary positions; softmax as the map.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from regard.core.place import Place
from regard.heads import MultiHead
from regard.masks import Causal, Lengths, Window
from regard.memories import KeyValue
from regard.models.entries import register_language_model
from regard.models.language.gpt import GPT, Past
from regard.models.language.gpt import Config as GPTConfig
from regard.models.language.placing import placed_score
from regard.models.parts.self_attention_layer import SelfAttentionLayer
from regard.positions.by_distance import DistanceTerm, distances


@dataclass(frozen=True)
class Config(GPTConfig):
    """Configuration of a decoder with adaptive spans."""

    most: int = 128  # the longest span
    ramp: int = 16  # R: over how many tokens attention fades out
    first: float = 0.25  # the share of the longest span that each head begins with
    pull: float = 2e-3  # how much the mean span, as a share of the longest, counts in the loss


class Span(DistanceTerm):
    """A term: log m_z(distance), −inf beyond the span, with a learned z for each head."""

    def __init__(self, heads: int, most: int, ramp: int, first: float):
        super().__init__()
        if most < 1 or ramp < 1 or not 0 <= first <= 1:
            raise ValueError(
                f"most and ramp must be at least 1 and first from 0 to 1; got {most}, {ramp} and {first}."
            )
        self.most, self.ramp = most, ramp
        self.share = nn.Parameter(torch.full((heads,), float(first)))

    @property
    def spans(self) -> Tensor:
        """z of each head, in tokens: (heads,)."""
        return self.most * self.share.clamp(0, 1)

    @property
    def reach(self) -> int:
        """The farthest that any head of the layer sees."""
        return int(self.spans.detach().max().ceil()) + self.ramp

    def span(self, lo: int, hi: int) -> tuple[int, int]:
        return lo, max(lo, hi)

    def table(self, query: Tensor, distances: Tensor) -> Tensor:
        return self._faded(query, distances.unsqueeze(-2))

    def forward(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """(heads, m, n)."""
        return self._faded(query, distances(place))

    def _faded(self, query: Tensor, apart: Tensor) -> Tensor:
        z = self.spans.to(query.dtype)[:, None, None]
        m = ((self.ramp + z - apart.abs().to(query.dtype)) / self.ramp).clamp(max=1)
        return torch.where(m > 0, m.clamp(min=1e-6).log(), -torch.inf)


@register_language_model(Config)
class AdaptiveSpan(GPT):
    """A decoder whose heads learn how far they look."""

    def __init__(self, config: Config):
        if config.map != "softmax" or config.scalable:
            raise ValueError(
                f"adaptive_span multiplies the weights of softmax by a ramp; got map {config.map!r}."
            )
        super().__init__(config)

    def heads(self, number: int) -> nn.Module:
        config = cast(Config, self.config)
        score = placed_score(config.score, config.width // config.heads, config.heads, config.positions)
        span = Span(config.heads, config.most, config.ramp, config.first)
        attention = MultiHead(config.width, config.heads, score=score + span, bias=config.bias)
        nn.init.xavier_uniform_(attention.W_o.weight)
        return attention

    def _terms(self) -> list[Span]:
        return [module for module in self.modules() if isinstance(module, Span)]

    @property
    def spans(self) -> Tensor:
        """z of every head, in tokens: (layers, heads)."""
        return torch.stack([term.spans for term in self._terms()])

    def from_embedded(
        self, embedded: Tensor, state: Past | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Past]:
        x, past = (
            embedded,
            tuple(cache.copy() for cache in state or ()) or tuple(KeyValue() for _ in self.layers),
        )
        for layer, cache, term in zip(self.layers, past, self._terms(), strict=True):
            mask = Causal() & Window(term.reach)
            x = cast(SelfAttentionLayer, layer)(
                x, mask if lengths is None else mask & Lengths(lengths), cache
            )
        return self.norm(x), past

    def penalty(self) -> Tensor | None:
        config = cast(Config, self.config)
        return config.pull * self.spans.mean() / config.most if self.training else None

    def figures(self) -> dict[str, float]:
        spans = self.spans.detach()
        return {"mean_span": float(spans.mean()), "longest_span": float(spans.max())}
