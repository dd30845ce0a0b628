"""The Vision Transformer: a picture as a sequence of patches, read by self-attention.

    x_j = W · patch_j + e_j        x = x + SelfAttention(LN(x))      x = x + FFN(LN(x))      in every layer

With read="first" a learned vector stands before the patches, and its last hidden state is classified; with
read="attention" one learned query attends to the patches. Positions e are learned, or sinusoids of row and
column, each in one half of the width.

Dosovitskiy et al. (2021), "An Image is Worth 16x16 Words", arXiv:2010.11929, §3.1.
Departs from the paper: small; patches are of the convolutions of a first layer, as in their hybrid.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.attention import Attention
from regard.heads import MultiHead
from regard.models.entries import register_image_model
from regard.models.images.image_model import ImageConfig, ImageModel, Recorded
from regard.models.parts.convolutions import Convolution
from regard.models.parts.named_components import check_choice, make_map
from regard.models.parts.self_attention_layer import SelfAttentionLayer
from regard.positions.sinusoidal import sinusoid
from regard.recording import intervene
from regard.scores import ScaledDot


@dataclass(frozen=True)
class Config(ImageConfig):
    """Configuration: `patch` is the side of a patch in pixels; None: a seventh of the picture or less."""

    rate: ClassVar[float] = 1e-3
    effort: ClassVar[float] = 2.5
    patch: int | None = None
    embedding: int = 96
    inner: int = 192
    heads: int = 4
    layers: int = 4
    read: Literal["first", "attention"] = "first"
    positions: Literal["learned", "sinusoidal"] = "learned"
    stem: int = 32  # channels of a convolution before the patches
    dropout: float = 0.0
    map: str = "softmax"
    learn_alpha: bool = False


@register_image_model(Config)
class VisionTransformer(ImageModel):
    """Patches, layers of self-attention, and a linear layer."""

    def __init__(self, config: Config):
        super().__init__(config)
        width, (h, w) = config.embedding, (config.height, config.width)
        patch = config.patch or max(2, -(-max(h, w) // 8))
        if patch > min(h, w):
            raise ValueError(f"patch must be at most {min(h, w)}, the side of a picture; got {patch}.")
        self.patch, self.grid = patch, (h // patch, w // patch)
        self.stem = Convolution(config.channels, config.stem, 3, 2 if patch % 2 == 0 else 1)
        self.embed = nn.Conv2d(config.stem, width, patch // self.stem.stride, patch // self.stem.stride)
        n = self.grid[0] * self.grid[1]
        if check_choice("positions", config.positions, ("learned", "sinusoidal")) == "learned":
            self.places = nn.Parameter(torch.randn(n, width) * 0.02)
        else:
            self.register_buffer("places", plane_sinusoid(self.grid, width), persistent=False)
        self.layers = nn.ModuleList(self._layer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(width)
        self.first = nn.Parameter(torch.randn(1, width) * 0.02)  # before the patches, or their query
        self.read = nn.Linear(width, config.classes)
        paths = [f"layers.{layer}.attention" for layer in range(config.layers)]
        self.attention_paths = {"self": paths, "reader": paths[-1:]}
        self.reads_first = check_choice("read", config.read, ("first", "attention")) == "first"
        if not self.reads_first:
            self.attention = Attention(ScaledDot(), make_map(config.map))
            self.attention_paths["reader"] = ["attention"]

    @staticmethod
    def _layer(config: Config) -> SelfAttentionLayer:
        width, heads = config.embedding, config.heads
        map = make_map(config.map, learn_alpha=config.learn_alpha, heads=heads)
        attention = MultiHead(width, heads, map=map)
        return SelfAttentionLayer(attention, width, config.inner, "gelu", "pre", config.dropout)

    def from_normalised(self, x: Tensor) -> Tensor:
        rows, columns = self.grid
        x = self.embed(self.stem(x.contiguous(memory_format=torch.channels_last)))[..., :rows, :columns]
        x = x.flatten(2).transpose(1, 2) + self.places
        first = self.first.expand(len(x), 1, -1)
        if self.reads_first:
            x = torch.cat([first, x], -2)
        for layer in self.layers:
            x = layer(x, None)
        x = self.norm(x)
        z = x[:, 0] if self.reads_first else self.attention(first, x).context[:, 0]
        logits: Tensor = self.read(z)
        return logits

    def over_cells(self, seen: Recorded) -> Tensor:
        weights = super().over_cells(seen)
        return weights[..., 0, 1:] if self.reads_first else weights

    def looking_with(self, weights: Tensor) -> AbstractContextManager[None]:
        if not self.reads_first:
            return super().looking_with(weights)

        def change(p: Tensor) -> Tensor:  # the weight of the first vector on itself is kept
            row = torch.cat([p[..., :1, :1], weights.to(p.dtype).unsqueeze(-2)], -1)
            return torch.cat([row, p[..., 1:, :]], -2)

        return intervene(self, change, self.attention_paths["reader"])


def plane_sinusoid(grid: tuple[int, int], width: int) -> Tensor:
    """Encodings (rows · columns, width) of the cells of a plane: one half of the row, one of the column."""
    half = width // 2
    down, across = (
        sinusoid(torch.arange(size), wide) for size, wide in zip(grid, (half, width - half), strict=True)
    )
    rows, columns = grid
    both = [down.unsqueeze(1).expand(-1, columns, -1), across.unsqueeze(0).expand(rows, -1, -1)]
    return torch.cat(both, -1).flatten(0, 1).float()
