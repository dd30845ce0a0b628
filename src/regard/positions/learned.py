"""Learned positions: one vector per position, added to the inputs.

There is a maximum length. They are initialized with variance ½, like sinusoids: beside embeddings of variance
1, smaller ones are learned more slowly.

Gehring et al. (2017), "Convolutional Sequence to Sequence Learning", arXiv:1705.03122; compared with
sinusoids in Vaswani et al. (2017), arXiv:1706.03762, Table 3 (E).
"""

import torch
from torch import Tensor, nn


class Learned(nn.Module):
    """A table of vectors (longest, width)."""

    def __init__(self, width: int, longest: int):
        super().__init__()
        self.width, self.longest = width, longest
        self.table = nn.Parameter(torch.randn(longest, width) * 0.5**0.5)

    def forward(self, n: int, start: int = 0, *, like: Tensor) -> Tensor:
        """The vectors of positions start to start + n: (n, width), of the dtype of `like`."""
        if start + n > self.longest:
            raise ValueError(
                f"there are learned positions for {self.longest} places; got a sequence of {start + n}. "
                "Use a larger longest, shorter sequences, or sinusoidal or relative positions."
            )
        return self.table[start : start + n].to(like.dtype)

    def extra_repr(self) -> str:
        return f"width={self.width}, longest={self.longest}"
