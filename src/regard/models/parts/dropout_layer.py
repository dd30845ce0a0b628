"""Dropout as a module: `nn.Dropout` with regard's kernel."""

from torch import Tensor, nn

from regard.kernels.attention.dropout_operator import dropout


class Dropout(nn.Dropout):
    """In training each element is 0 with probability p, else divided by 1 − p."""

    def forward(self, input: Tensor) -> Tensor:
        return dropout(input, self.p) if self.training else input
