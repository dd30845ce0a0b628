"""A small residual network of convolutions: from a picture to a grid of annotations.

    x = ReLU(BN(conv₅(x))) with a stride      x = ReLU(x + BN(conv₃(ReLU(BN(conv₃(x))))))      in each block
    between two stages ReLU(BN(conv₃(x))) with stride 2

He et al. (2016), "Deep Residual Learning for Image Recognition", arXiv:1512.03385; batch norm: Ioffe &
Szegedy (2015), arXiv:1502.03167.

`receptive` says how many pixels a cell of the grid has seen, and how far apart cells are.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CELLS = 24  # rows or columns after the first convolution, at most


class Receptive(NamedTuple):
    """What a cell of the grid sees: so many pixels; cells are `stride` pixels apart, the first at `start`."""

    size: int
    stride: int
    start: float  # the centre of the first cell, in pixels


class Convolution(nn.Module):
    """Convolution, batch norm and, unless it is the last of a block, ReLU."""

    def __init__(self, inputs: int, outputs: int, size: int = 3, stride: int = 1, last: bool = False):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.size, self.stride, self.last = size, stride, last

    def forward(self, x: Tensor) -> Tensor:
        """(b, inputs, h, w) to (b, outputs, ⌈h / stride⌉, ⌈w / stride⌉)."""
        x = self.norm(self.conv(x))
        return x if self.last else F.relu(x)


class Block(nn.Module):
    """Two convolutions around which the input is carried; `gate` sees what is added to it before the sum."""

    def __init__(self, width: int, gate: nn.Module | None = None):
        super().__init__()
        self.first, self.second = Convolution(width, width), Convolution(width, width, last=True)
        self.gate = gate if gate is not None else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """(b, width, h, w) to the same."""
        return F.relu(x + self.gate(self.second(self.first(x))))


class Convolutions(nn.Module):
    """Stages of blocks of these widths, each stage with half the rows and columns of the one before.

    `stride` is that of the first convolution; by default what leaves about a dozen rows and columns.
    """

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        widths: Sequence[int] = (32, 64),
        blocks: Sequence[int] = (1, 1),
        stride: int | None = None,
        gates: Sequence[nn.Module] | None = None,
    ):
        super().__init__()
        if len(widths) != len(blocks) or not widths or min(blocks) < 0 or min(widths) < 1:
            raise ValueError(f"there must be as many blocks as widths; got {tuple(blocks)}, {tuple(widths)}.")
        stride = stride or first_stride(height, width)
        gate = iter(gates or ())
        layers: list[nn.Module] = [Convolution(channels, widths[0], 5, stride)]
        for number, (wide, count) in enumerate(zip(widths, blocks, strict=True)):
            if number:
                layers.append(Convolution(widths[number - 1], wide, 3, 2))
            layers += [Block(wide, next(gate, None)) for _ in range(count)]
        self.layers = nn.Sequential(*layers)
        self.width = widths[-1]
        rows, columns = height, width
        for one in layers:
            if isinstance(one, Convolution):
                rows, columns = -(-rows // one.stride), -(-columns // one.stride)
        self.grid = (rows, columns)
        self.receptive = _receptive(layers)

    def forward(self, x: Tensor) -> Tensor:
        """Pictures (b, channels, h, w) to annotations (b, width, rows, columns)."""
        features: Tensor = self.layers(x.contiguous(memory_format=torch.channels_last))
        return features

    def annotations(self, x: Tensor) -> Tensor:
        """The same, cell by cell: (b, rows · columns, width)."""
        cells: Tensor = self(x).flatten(2).transpose(1, 2)
        return cells


def first_stride(height: int, width: int) -> int:
    """1 of small pictures, 2 from 16 pixels on, then so that there are at most CELLS rows and columns."""
    least = 1 if min(height, width) < 16 else 2
    return max(least, -(-max(height, width) // CELLS))


def _receptive(layers: Sequence[nn.Module]) -> Receptive:
    size, step, start = 1, 1, 0.0
    for layer in layers:
        assert isinstance(layer, Convolution | Block)
        for one in [layer] if isinstance(layer, Convolution) else [layer.first, layer.second]:
            size += (one.size - 1) * step
            step *= one.stride
    return Receptive(size, step, start)
