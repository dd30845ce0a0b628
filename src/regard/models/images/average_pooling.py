"""The network of `image_attention` with the mean of all cells in the place of attention: its control.

    h = convolutions(x)        z = (1/n) Σⱼ hⱼ        ŷ = Wz + b

Lin, Chen & Yan (2014), "Network In Network", arXiv:1312.4400, §3.2: global average pooling.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from regard.models.entries import register_image_model
from regard.models.images.image_model import ConvolutionConfig, ImageModel
from regard.models.parts.dropout_layer import Dropout


@dataclass(frozen=True)
class Config(ConvolutionConfig):
    """Configuration: as that of `image_attention`, without score and map."""

    dropout: float = 0.0


@register_image_model(Config)
class AveragePooling(ImageModel):
    """Convolutions, the mean of their cells, and a linear layer: no attention."""

    def __init__(self, config: Config):
        super().__init__(config)
        self.convolutions = config.convolutions()
        self.grid = self.convolutions.grid
        self.dropout = Dropout(config.dropout)
        self.read = nn.Linear(self.convolutions.width, config.classes)

    def from_normalised(self, x: Tensor) -> Tensor:
        logits: Tensor = self.read(self.dropout(self.convolutions(x).mean((-2, -1))))
        return logits
