"""Variational dropout: one mask for all positions of a sequence.

Gal & Ghahramani (2016), arXiv:1512.05287, §4.
"""

from torch import Tensor, nn
from torch.nn import functional as F


class VariationalDropout(nn.Module):
    """In training each feature of a sequence is 0 at all positions with probability p."""

    def __init__(self, p: float):
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout must be at least 0 and less than 1; got {p}.")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """x (b, n, d) of the same shape."""
        if not self.training or self.p == 0:
            return x
        return x * F.dropout(x.new_ones(x.shape[0], 1, x.shape[-1]), self.p)
