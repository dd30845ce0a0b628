"""The decoder-only Transformer: a stack of causal self-attention and feed-forward layers.

    x = E[w] (+ positions)      x = x + SelfAttention(LN(x))      x = x + FFN(LN(x))      logits = W LN(x)

A position sees itself and those before it. Positions are rotary by default: they depend on distances alone,
so that a model that was trained on segments can be given any window of a text. The output layer is tied to
the embeddings.

Radford et al. (2018), "Improving Language Understanding by Generative Pre-Training"; pre-norm and the smaller
first weights of layers that write into the residual stream: Radford et al. (2019), "Language Models are
Unsupervised Multitask Learners", §2.3. Tied: Press & Wolf (2017), arXiv:1608.05859.
Departs from the paper: rotary positions, embeddings times √width, and squared ReLU in the feed-forward layers
(So et al. 2021, "Primer", arXiv:2109.08668) unless told otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

from torch import Tensor, nn

from regard.core.shapes import check_rate
from regard.heads import MultiHead
from regard.maps import Scalable
from regard.masks import Causal, Lengths
from regard.memories import KeyValue
from regard.models.entries import register_language_model
from regard.models.language.language_model import LanguageModel
from regard.models.language.placing import Placing, added_positions, placed_score
from regard.models.parts.attention_choice import make_heads
from regard.models.parts.embedding import Embedding
from regard.models.parts.named_components import make_map
from regard.models.parts.self_attention_layer import SelfAttentionLayer, StackConfig, scaled_initial

Past = tuple[KeyValue, ...]  # keys and values of each layer


@dataclass(frozen=True)
class Config(StackConfig):
    """Configuration of a decoder-only Transformer."""

    score: str = "scaled_dot"
    map: str = "softmax"
    learn_alpha: bool = False
    scalable: bool = False  # scores times 1 + β (log n)^γ, learned for each head: `maps/scalable.py`
    positions: Placing = "rotary"
    longest: int = 1024  # maximum number of tokens, for learned positions
    activation: Literal["relu", "gelu", "gelu_tanh", "squared_relu"] = "squared_relu"
    bias: bool = False  # of the projections of the attentions
    attention: str = "full"  # or another mechanism: performer, local:window=32 …: `regard.MECHANISMS`
    tied: bool = True  # the output layer has the embeddings as its weights


@register_language_model(Config)
class GPT(LanguageModel):
    """A stack of causal self-attention layers."""

    suits: ClassVar[Mapping[str, Any]] = {
        "steps": 5000, "tokens": 1024, "segment": 128, "optimiser": "muon", "rate": 2.5e-3, "warmup": 100,
        "validate": 250, "save": 250,
    }  # fmt: skip

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        check_rate("dropout", config.dropout)
        if config.attention != "full" and type(self).heads is not GPT.heads:
            name = type(self).__name__
            raise ValueError(f"{name} has an attention of its own: set attention={config.attention} on gpt.")
        positions = added_positions(config.positions, config.width, config.longest)
        self.words = Embedding(config.vocabulary, config.width, positions, dropout=config.dropout)
        self.layers = nn.ModuleList(self.layer(number) for number in range(config.layers))
        scaled_initial(self.layers)
        self.norm = nn.LayerNorm(config.width)
        if not config.tied:
            self.output = nn.Linear(config.width, config.vocabulary, bias=False)
            nn.init.zeros_(self.output.weight)  # at first all tokens are as likely
        self.attention_paths = {"self": [f"layers.{number}.attention" for number in range(config.layers)]}

    def layer(self, number: int) -> SelfAttentionLayer:
        """One of the layers, counted from 0."""
        config = self.config
        return SelfAttentionLayer(
            self.heads(number), config.width, config.inner, config.activation, "pre", config.dropout
        )

    def heads(self, number: int) -> nn.Module:
        """The attention of a layer."""
        config = self.config
        chosen = make_map(config.map, learn_alpha=config.learn_alpha, heads=config.heads)
        each = config.width // config.heads
        attention = make_heads(
            config.attention,
            config.width,
            config.heads,
            score=lambda name: placed_score(name, each, config.heads, config.positions),
            named=config.score,
            map=Scalable(chosen, config.heads) if config.scalable else chosen,
            causal=True,
            bias=config.bias,
        )
        nn.init.xavier_uniform_(attention.W_o.weight)
        return attention

    @property
    def longest(self) -> int | None:
        return int(self.config.longest) if self.config.positions == "learned" else None

    def read(self, state: Past | None) -> int:
        return 0 if state is None else len(state[0])

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        embedded: Tensor = self.words(tokens, start)
        return embedded

    def from_embedded(
        self, embedded: Tensor, state: Past | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Past]:
        x, mask = embedded, Causal() if lengths is None else Causal() & Lengths(lengths)
        past = tuple(cache.copy() for cache in state or ()) or tuple(
            cast(MultiHead, cast(SelfAttentionLayer, layer).attention).new_cache() for layer in self.layers
        )
        for layer, cache in zip(self.layers, past, strict=True):
            x = layer(x, mask, cache)
        return self.norm(x), past

    def vocabulary(self) -> tuple[Tensor, Tensor | None]:
        return (self.words.E.weight if self.config.tied else self.output.weight), None
