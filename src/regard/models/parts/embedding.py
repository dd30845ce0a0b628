"""Token embeddings times √d, plus position encodings.

    x_t = √d · E[w_t] + position_t

Vaswani et al. (2017), arXiv:1706.03762, §3.4, §3.5.
"""

from torch import Tensor, nn

from regard.models.parts.dropout_layer import Dropout
from regard.positions import Learned, Sinusoidal


class Embedding(nn.Module):
    """Vectors E (vocabulary, width) ~ N(0, 1/width), so that √width · E has variance 1."""

    def __init__(
        self, vocabulary: int, width: int, positions: Sinusoidal | Learned | None, *, dropout: float = 0.0
    ):
        super().__init__()
        self.E = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.E.weight, std=width**-0.5)
        self.positions = positions
        self.dropout = Dropout(dropout)
        self.scale = width**0.5

    def forward(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Tokens (b, n), the first of them at position `start`, to (b, n, width)."""
        x = self.E(tokens) * self.scale
        if self.positions is not None:
            x = x + self.positions(tokens.shape[-1], start, like=x)
        embedded: Tensor = self.dropout(x)
        return embedded
