"""Squeeze-and-excitation: a residual network whose channels are weighed by gates that depend on the picture.

    s = σ(W₂ ReLU(W₁ mean(u)))        x ← ReLU(x + s · u)        u: what a block adds, before the sum

The gates act on channels, not on places: a form of gating, not of attention over positions. `gates(pixels)`
shows them. With gates="constant" each channel has one learned gate for all pictures: the control.

Hu, Shen & Sun (2018), "Squeeze-and-Excitation Networks", arXiv:1709.01507, §3. The hidden layer has 1/16 of
the channels there; here 1/4, and at least 4 units, as the network is small.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.entries import register_image_model
from regard.models.images.image_model import ConvolutionConfig, ImageModel
from regard.models.parts.convolutions import Block
from regard.models.parts.named_components import check_choice

LEAST = 4  # units of the hidden layer of a gate


@dataclass(frozen=True)
class Config(ConvolutionConfig):
    """Configuration: as that of `average_pooling`, with the reduction r of the gates' hidden layers."""

    reduction: int = 4
    gates: Literal["input", "constant"] = "input"


class Gate(nn.Module):
    """s · u with s = σ(W₂ ReLU(W₁ mean(u))), of u (b, width, h, w); or with constant s."""

    def __init__(self, width: int, reduction: int, constant: bool):
        super().__init__()
        hidden = max(LEAST, width // reduction)
        self.constant = nn.Parameter(torch.zeros(width)) if constant else None
        self.W1 = None if constant else nn.Linear(width, hidden)
        self.W2 = None if constant else nn.Linear(hidden, width)

    def values(self, u: Tensor) -> Tensor:
        """The gates s (b, width)."""
        if self.W1 is None or self.W2 is None:
            assert self.constant is not None
            return self.constant.sigmoid().expand(len(u), -1)
        opened: Tensor = self.W2(F.relu(self.W1(u.mean((-2, -1)))))
        return opened.sigmoid()

    def forward(self, u: Tensor) -> Tensor:
        """(b, width, h, w) to the same."""
        return u * self.values(u)[..., None, None]


@register_image_model(Config)
class SqueezeExcitation(ImageModel):
    """A residual network with gates on its channels, the mean of its cells, and a linear layer."""

    def __init__(self, config: Config):
        super().__init__(config)
        constant = check_choice("gates", config.gates, ("input", "constant")) == "constant"
        gates = [
            Gate(width, config.reduction, constant)
            for width, count in zip(config.widths, config.blocks, strict=False)
            for _ in range(count)
        ]
        self.convolutions = config.convolutions(gates)
        self.grid = self.convolutions.grid
        self.read = nn.Linear(self.convolutions.width, config.classes)

    def from_normalised(self, x: Tensor) -> Tensor:
        logits: Tensor = self.read(self.convolutions(x).mean((-2, -1)))
        return logits

    def gates(self, pixels: Tensor) -> list[Tensor]:
        """The gates (b, width) of each block, for bytes (b, c, h, w)."""
        found: list[Tensor] = []
        x = self.normalise(pixels)
        for layer in self.convolutions.layers:
            if isinstance(layer, Block):
                u = layer.second(layer.first(x))
                assert isinstance(layer.gate, Gate)
                found.append(layer.gate.values(u))
            x = layer(x)
        return found
