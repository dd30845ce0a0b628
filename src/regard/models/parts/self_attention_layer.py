"""A Transformer layer of self-attention and feed-forward: a decoder layer without cross-attention, or of an
encoder, depending on the mask.

    x = x + SelfAttention(LN(x))      x = x + FFN(LN(x))

Vaswani et al. (2017), arXiv:1706.03762, §3.1; pre-norm as in `parts/residual.py`.
"""

from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from regard.heads import MultiHead
from regard.heads.cached_step import cached_step, takes_step
from regard.masks import Mask
from regard.memories import KeyValue
from regard.models.parts.feed_forward import FeedForward
from regard.models.parts.layer_step import layer_step, takes_layer
from regard.models.parts.residual import Residual, only_adds


@dataclass(frozen=True)
class StackConfig:
    """What a stack of such layers over the tokens of a text is told."""

    vocabulary: int
    width: int = 128
    inner: int = 512  # of the feed-forward layers
    heads: int = 4
    layers: int = 4
    dropout: float = 0.05


class SelfAttentionLayer(nn.Module):
    """Self-attention and feed-forward around any multi-head attention."""

    def __init__(
        self, attention: nn.Module, width: int, inner: int, activation: str, norm: str, dropout: float
    ):
        super().__init__()
        self.attention = attention
        self.feed_forward = FeedForward(width, inner, activation)
        self.around = nn.ModuleList(Residual(width, norm, dropout) for _ in range(2))

    def forward(self, x: Tensor, mask: Mask | None, cache: KeyValue | None = None) -> Tensor:
        """x (b, m, width) to (b, m, width); a cache holds the keys and values of earlier positions."""
        around, further = cast("tuple[Residual, Residual]", self.around)
        if takes_step(self.attention, x, mask, cache) and only_adds(around) and only_adds(further):
            heads, steps = cast(MultiHead, self.attention), cast(KeyValue, cache)
            if takes_layer(heads, around, further, self.feed_forward, x):
                return layer_step(heads, around, further, self.feed_forward, x, steps)
            x = x + cached_step(heads, around.norm(x), steps)
            fed: Tensor = self.feed_forward(further.norm(x))
            return x + fed
        x = around(x, lambda x: self.attention(x, mask=mask, cache=cache).context)
        x = further(x, self.feed_forward)
        return x


def scaled_initial(layers: nn.ModuleList) -> None:
    """Divide the matrices that write into the residual stream by √(2 layers), so that its variance stays 1.

    Radford et al. (2019), "Language Models are Unsupervised Multitask Learners", §2.3.
    """
    scale = (2 * len(layers)) ** -0.5
    for layer in layers:
        assert isinstance(layer, SelfAttentionLayer) and isinstance(layer.attention, MultiHead)
        for last in (layer.attention.W_o, layer.feed_forward.W2):
            last.weight.data.mul_(scale)
