"""Transformer-XL: segments of a text, each of which attends to a memory of the segments before it.

    keys of layer l = LN([memory_l; x_l]),    memory_l = the last states x_l of earlier segments, no gradient
    θᵢⱼ = ((qᵢ + u)ᵀ kⱼ + (qᵢ + v)ᵀ W r_{i−j}) / √d                    (`positions/transformer_xl_score.py`)

The memory holds hidden states, which the present weights project to keys and values. It stands before the
segment; queries see all of it and, causally, the segment, and distances count over both. With L layers and a
memory of k tokens a prediction can depend on L · k tokens before the segment.

Reading in parts gives what reading at once gives as long as the memory covers the text; in a model of one
layer it is then also full attention, with no gradient into what was read before.

Dai et al. (2019), "Transformer-XL", arXiv:1901.02860.
Departs from the paper: pre-norm; r has the width of a head; a vocabulary without adaptive softmax.
"""

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from regard.core.shapes import check_rate
from regard.heads import MultiHead
from regard.masks import Causal, Lengths, Mask
from regard.memories import remember
from regard.models.entries import register_language_model
from regard.models.language.language_model import LanguageModel
from regard.models.parts.embedding import Embedding
from regard.models.parts.named_components import make_map
from regard.models.parts.residual import Residual
from regard.models.parts.self_attention_layer import SelfAttentionLayer, StackConfig, scaled_initial
from regard.positions import TransformerXL as RelativeScore


@dataclass(frozen=True)
class Config(StackConfig):
    """Configuration of a Transformer-XL."""

    width: int = 160
    inner: int = 640
    heads: int = 5
    map: str = "softmax"
    learn_alpha: bool = False
    memory: int = 128  # tokens of earlier segments that each layer keeps
    activation: Literal["relu", "gelu", "squared_relu"] = "squared_relu"


@register_language_model(Config)
class TransformerXL(LanguageModel):
    """A stack of causal self-attention layers with a memory of earlier segments."""

    carries = True

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        check_rate("dropout", config.dropout)
        self.words = Embedding(config.vocabulary, config.width, None, dropout=config.dropout)
        self.layers = nn.ModuleList(self._layer() for _ in range(config.layers))
        scaled_initial(self.layers)
        self.norm = nn.LayerNorm(config.width)
        self.attention_paths = {"self": [f"layers.{number}.attention" for number in range(config.layers)]}

    def _layer(self) -> SelfAttentionLayer:
        config = self.config
        heads = MultiHead(
            config.width,
            config.heads,
            score=RelativeScore(config.width // config.heads, config.heads),
            map=make_map(config.map, learn_alpha=config.learn_alpha, heads=config.heads),
            bias=False,
        )
        nn.init.xavier_uniform_(heads.W_o.weight)
        return SelfAttentionLayer(heads, config.width, config.inner, config.activation, "pre", config.dropout)

    def read(self, state: dict[str, Tensor] | None) -> int:
        return 0 if state is None else state["memory"].shape[-2]

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        embedded: Tensor = self.words(tokens)
        return embedded

    def from_embedded(
        self, embedded: Tensor, state: dict[str, Tensor] | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        x, kept = embedded, []
        for number, layer in enumerate(self.layers):
            before = None if state is None else state["memory"][number]
            kept.append(remember(before, x, self.config.memory)[0])
            x = attend_with_memory(cast(SelfAttentionLayer, layer), x, before, lengths)
        return self.norm(x), {"memory": torch.stack(kept)}

    def vocabulary(self) -> tuple[Tensor, Tensor | None]:
        return self.words.E.weight, None


def attend_with_memory(
    layer: SelfAttentionLayer, x: Tensor, memory: Tensor | None, lengths: Tensor | None = None
) -> Tensor:
    """A layer whose keys are the memory (b, k, width) and x (b, m, width), in this order: (b, m, width).

    With lengths (b,), what follows the first `lengths` of x is padding.
    """
    around, m = cast(Residual, layer.around[0]), x.shape[-2]
    keys = around.norm(x if memory is None else torch.cat([memory, x], -2))
    mask: Mask = Causal()
    if lengths is not None:
        mask = mask & Lengths(lengths + keys.shape[-2] - m)
    context = layer.attention(keys[..., -m:, :], keys, mask=mask).context
    x = x + around.dropout(context)
    x = layer.around[1](x, layer.feed_forward)
    return x
