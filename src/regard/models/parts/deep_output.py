"""Deep output: a layer of maxout units between the decoder state and the output layer.

    t̃ = W[s; Ey; c],     t_j = max(t̃_{2j−1}, t̃_{2j})

Bahdanau, Cho & Bengio (2015), arXiv:1409.0473, §A.2.2, after Pascanu et al. (2014), arXiv:1312.6026, and
Goodfellow et al. (2013), "Maxout Networks", arXiv:1302.4389.
"""

import torch
from torch import Tensor, nn

from regard.models.parts.dropout_layer import Dropout


class DeepOutput(nn.Module):
    """A maxout layer from concatenated vectors of total width `inputs` to `width` units."""

    def __init__(self, inputs: int, width: int, dropout: float):
        super().__init__()
        self.W = nn.Linear(inputs, 2 * width)
        self.dropout = Dropout(dropout)

    def forward(self, *parts: Tensor) -> Tensor:
        """(..., d) each to (..., width)."""
        pairs: Tensor = self.W(torch.cat(parts, -1)).unflatten(-1, (-1, 2))
        hidden: Tensor = self.dropout(pairs.amax(-1))
        return hidden
