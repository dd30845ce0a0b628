"""The Transformer encoder as a classifier: layers of self-attention, then attention with one query.

    x = x + SelfAttention(x)      x = x + FFN(x)      in every layer; then as `attentive_bilstm`

With read="first" there is no last attention: a learned vector is prepended to the words, as BERT's [CLS], and
its last hidden state is classified. The weights of the layers are then (b, heads, 1 + n, 1 + n), and the
"reader" is the last self-attention, of which the row of that vector counts.

Vaswani et al. (2017), "Attention Is All You Need", arXiv:1706.03762, §3.1, the encoder. Devlin et al. (2019),
"BERT", arXiv:1810.04805, §3, for read="first".
Departs from the paper: pre-norm; word vectors are initialized with variance 1 and not multiplied by √d.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.masks import Lengths
from regard.models.classifiers.classifier_model import ClassifierModel, Common, Recorded
from regard.models.classifiers.one_query import OneQuery
from regard.models.entries import register_classifier
from regard.models.parts.attention_choice import make_heads
from regard.models.parts.feed_forward import FeedForward
from regard.models.parts.initialization import glorot
from regard.models.parts.named_components import check_choice, make_map
from regard.models.parts.residual import Residual
from regard.positions import Learned, Rotary, Sinusoidal
from regard.recording import intervene
from regard.scores import SCORES, Factored, Score


@dataclass(frozen=True)
class Config(Common):
    """Configuration of a Transformer encoder; `embedding` is the width of all layers."""

    embedding: int = 128
    inner: int = 256  # of the feed-forward layers
    heads: int = 4
    layers: int = 2
    read: Literal["attention", "first"] = "attention"
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    longest: int = 1024  # maximum text length, for learned positions
    attention: str = "full"  # or another mechanism: performer, local:window=32 …: `regard.MECHANISMS`


class TextLayer(nn.Module):
    """Self-attention and feed-forward."""

    def __init__(self, config: Config):
        super().__init__()
        width, heads = config.embedding, config.heads
        map = make_map(config.map, learn_alpha=config.learn_alpha, heads=heads)
        self.attention = make_heads(
            config.attention,
            width,
            heads,
            score=lambda name: _score(name, width // heads, config.positions),
            map=map,
            causal=False,
        )
        self.feed_forward = FeedForward(width, config.inner)
        self.around = nn.ModuleList(Residual(width, "pre", config.dropout) for _ in range(2))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """x (b, n, width) to (b, n, width)."""
        x = self.around[0](x, lambda x: self.attention(x, mask=Lengths(lengths)).context)
        x = self.around[1](x, self.feed_forward)
        return x


def _score(name: str, each: int, positions: str) -> Score | str:
    """A score by name, rotary positions in it if these are wanted."""
    if positions != "rotary":
        return name
    inner = SCORES[name].make(each, each)
    assert isinstance(inner, Factored)
    return Rotary(each, score=inner)


@register_classifier(Config)
class TransformerEncoder(OneQuery):
    """Layers of self-attention, attention with one query, and a linear layer."""

    def __init__(self, config: Config):
        super().__init__(config, config.embedding)
        self.encoder = nn.ModuleList(TextLayer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.embedding)
        glorot(self)
        kind = check_choice("positions", config.positions, ("sinusoidal", "learned", "rotary"))
        self.places = None
        if kind != "rotary":
            learned = Learned(config.embedding, config.longest) if kind == "learned" else None
            self.places = learned or Sinusoidal(config.embedding)
        layers = [f"encoder.{layer}.attention" for layer in range(config.layers)]
        self.attention_paths["self"] = layers
        self.reads_first = check_choice("read", config.read, ("attention", "first")) == "first"
        if self.reads_first:
            if config.pairs or not config.layers:
                raise ValueError('read="first" is for one text and at least one layer. Use read="attention".')
            del self.attention
            self.attention_paths["reader"] = layers[-1:]

    def encode(self, x: Tensor, lengths: Tensor) -> Tensor:
        x = x if self.places is None else x + self.places(x.shape[-2], like=x)
        for layer in self.encoder:
            x = layer(x, lengths)
        states: Tensor = self.norm(x)
        return states

    def from_embedded(self, embedded: Tensor, lengths: Tensor, condition: Tensor | None = None) -> Tensor:
        if not self.reads_first:
            return super().from_embedded(embedded, lengths, condition)
        return self.with_states(embedded, lengths, condition)[0]

    def with_states(
        self, vectors: Tensor, lengths: Tensor, condition: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        if not self.reads_first:
            return super().with_states(vectors, lengths, condition)
        first = self.query.expand(len(vectors), 1, -1).to(vectors.dtype)
        states = self.states(torch.cat([first, vectors], -2), lengths + 1)
        return self.read(self.dropout(states[:, 0])), states[:, 1:]

    def prepared(self, *texts: Tensor) -> Callable[[], Tensor]:
        return ClassifierModel.prepared(self, *texts) if self.reads_first else super().prepared(*texts)

    def over_words(self, seen: Recorded) -> Tensor:
        weights = super().over_words(seen)
        return weights[..., 0, 1:] if self.reads_first else weights

    def looking_with(self, weights: Tensor, condition: Tensor | None = None) -> AbstractContextManager[None]:
        if not self.reads_first:
            return super().looking_with(weights, condition)

        def change(p: Tensor) -> Tensor:  # the weight of the prepended vector on itself is kept
            row = torch.cat([p[..., :1, :1], weights.to(p.dtype).unsqueeze(-2)], -1)
            return torch.cat([row, p[..., 1:, :]], -2)

        return intervene(self, change, self.attention_paths["reader"])
