"""The base class of image classifiers: pictures in, logits out, and the grid of cells that is attended to.

    logits = model(pixels) = model.from_normalised(model.normalise(pixels))

Pixels are bytes (b, channels, h, w). Normalised they have mean 0 and variance 1 over the training pictures,
so that 0 is the mean colour: what a region is painted with that shall not be seen.

`attention_paths["reader"]` has the attention over the cells, if the model has one; `over_cells(seen)` has its
weights (b, k, n), k queries or heads, n = rows · columns cells, row by row.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.attention import Attended
from regard.core.errors import ShapeError
from regard.models.parts.convolutions import Convolutions
from regard.recording import intervene

Recorded = Mapping[str, "list[Attended]"]


@dataclass(frozen=True)
class ImageConfig:
    """What all models of pictures are told: the size of the pictures, their classes, mean and deviation."""

    channels: int
    height: int
    width: int
    classes: int
    mean: tuple[float, ...] = (0.5,)  # of each channel, from 0 to 1
    deviation: tuple[float, ...] = (0.5,)

    rate: ClassVar[float] = 6e-3  # the highest learning rate that suits it
    effort: ClassVar[float] = 1.0  # what a picture costs, by what it costs `image_attention`


@dataclass(frozen=True)
class ConvolutionConfig(ImageConfig):
    """The same for models that begin with convolutions: the widths of the stages, and the blocks of each."""

    widths: tuple[int, ...] = (32, 64)
    blocks: tuple[int, ...] = (1, 2)
    stride: int | None = None  # of the first convolution; None: by the size of the pictures

    def convolutions(self, gates: Sequence[nn.Module] = ()) -> Convolutions:
        """The convolutions."""
        size = self.channels, self.height, self.width
        return Convolutions(*size, self.widths, self.blocks, self.stride, gates)


@dataclass(frozen=True)
class PictureTextConfig(ConvolutionConfig):
    """The same for models that also read or write words: the widths of their vectors and of the state."""

    blocks: tuple[int, ...] = (1, 1)
    embedding: int = 128
    state: int = 192


class ImageModel(nn.Module):
    """A classifier of pictures."""

    config: Any
    attention_paths: dict[str, list[str]]
    grid: tuple[int, int]  # rows and columns of the cells that are attended to
    mean: Tensor
    deviation: Tensor

    def __init__(self, config: ImageConfig):
        super().__init__()
        self.config, self.attention_paths = config, {}
        for name in ("mean", "deviation"):
            values = torch.tensor(getattr(config, name)).view(-1, 1, 1)
            self.register_buffer(name, values, persistent=False)

    def normalise(self, pixels: Tensor) -> Tensor:
        """Bytes (b, c, h, w) to numbers of mean 0 and variance 1."""
        size = (self.config.channels, self.config.height, self.config.width)
        wanted = ", ".join(map(str, size))
        if tuple(pixels.shape[1:]) != size:
            raise ShapeError(f"pictures must be (b, {wanted}); got {tuple(pixels.shape)}.")
        return (pixels / 255 - self.mean) / self.deviation

    def from_normalised(self, x: Tensor) -> Tensor:
        """Normalised pictures (b, c, h, w) to logits (b, classes)."""
        raise NotImplementedError

    def annotations(self, x: Tensor) -> Tensor:
        """What comes before attention over the cells, of normalised pictures: nothing, unless said anew."""
        return x

    def from_annotations(self, h: Tensor, *more: Tensor) -> Tensor:
        """The rest: logits (b, classes) of `annotations`; tests of other weights need no more than this."""
        return self.from_normalised(h)

    def forward(self, pixels: Tensor) -> Tensor:
        """Bytes (b, c, h, w) to logits (b, classes)."""
        return self.from_normalised(self.normalise(pixels))

    def over_cells(self, seen: Recorded) -> Tensor:
        """The weights over the cells (b, k, n), of the last call that was recorded."""
        return seen[self.attention_paths["reader"][-1]][-1].weights

    def looking_with(self, weights: Tensor) -> AbstractContextManager[None]:
        """A context in which the weights over the cells are these, (b, k, n)."""
        return intervene(self, lambda p: weights.to(p.dtype), self.attention_paths["reader"][-1])

    def parameter_count(self) -> int:
        """The number of parameters."""
        return sum(p.numel() for p in self.parameters())
