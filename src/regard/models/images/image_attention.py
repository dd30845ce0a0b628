"""Attention with one learned query over the cells that convolutions make of a picture.

    h = convolutions(x)        z = Attention(q, h + e)        ŷ = Wz + b

e are learned vectors of the cells, added to the keys alone. Any score and any row map, also the continuous
ones, whose density is then over the plane of the picture.

The annotations are those of Xu et al. (2015), "Show, Attend and Tell", arXiv:1502.03044, §3.1.1, read as in
`attentive_bilstm`; the network is much smaller.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import Attention, resolve_score
from regard.core.place import Place
from regard.models.entries import register_image_model
from regard.models.images.image_model import ConvolutionConfig, ImageModel
from regard.models.parts.dropout_layer import Dropout
from regard.models.parts.named_components import AttentionConfig, make_map


@dataclass(frozen=True)
class Config(AttentionConfig, ConvolutionConfig):
    """Configuration: how the cells are attended to."""

    places: bool = True  # keys know their cell
    dropout: float = 0.0


@register_image_model(Config)
class ImageAttention(ImageModel):
    """Convolutions, attention with one query over their cells, and a linear layer."""

    def __init__(self, config: Config):
        super().__init__(config)
        self.convolutions = config.convolutions()
        self.grid, width = self.convolutions.grid, self.convolutions.width
        self.query = nn.Parameter(torch.randn(1, width))
        self.places = nn.Parameter(torch.zeros(self.grid[0] * self.grid[1], width)) if config.places else None
        map = make_map(config.map, learn_alpha=config.learn_alpha, grid=self.grid)
        self.attention = Attention(resolve_score(config.score, width, width), map)
        self.dropout = Dropout(config.dropout)
        self.read = nn.Linear(width, config.classes)
        self.attention_paths = {"reader": ["attention"]}

    def from_normalised(self, x: Tensor) -> Tensor:
        return self.from_annotations(self.annotations(x))

    def annotations(self, x: Tensor) -> Tensor:
        """Normalised pictures to the cells (b, n, width)."""
        return self.convolutions.annotations(x)

    def from_annotations(self, h: Tensor, *more: Tensor) -> Tensor:
        """Cells (b, n, width) to logits (b, classes)."""
        keys = h if self.places is None else h + self.places
        query = self.query.expand(len(h), 1, -1)
        place = Place.on_grid(1, self.grid, h.device)
        z = self.attention(query, keys, h, place=place).context[:, 0]
        logits: Tensor = self.read(self.dropout(z))
        return logits
