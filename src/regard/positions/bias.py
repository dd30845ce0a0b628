"""A bias given as a tensor: what `nn.MultiheadAttention` calls a float mask."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.core.place import Place
from regard.core.shapes import check_float
from regard.scores.score import Products


class Bias(nn.Module):
    """A term: a tensor that broadcasts to (..., m, n), fixed or (learn=True) learned, added to the scores."""

    def __init__(self, bias: Tensor, *, learn: bool = False):
        super().__init__()
        check_float("bias", bias)
        self.bias: Tensor
        if learn:
            self.bias = nn.Parameter(bias.detach().clone())
        else:
            self.register_buffer("bias", bias)

    def forward(self, query: Tensor, keys: Tensor, place: Place) -> Tensor:
        """The rows of the bias for these queries."""
        m = query.shape[-2]
        bias = self.bias.to(query.dtype)
        if bias.dim() < 2 or bias.shape[-2] == 1:
            return bias
        return torch.narrow(bias, -2, place.first, m)

    def added(self, products: Products, query: Tensor, keys: Tensor, place: Place) -> Products:
        """The products with this bias added."""
        bias = self(query, keys, place)
        return replace(products, bias=bias if products.bias is None else products.bias + bias)
