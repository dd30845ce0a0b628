"""Conversion from and to the opposite mask conventions.

regard and `scaled_dot_product_attention`: True = may be attended to. `nn.MultiheadAttention` and
`nn.Transformer`: True = hidden, and a float mask is added to the scores.
"""

import torch
from torch import Tensor

from regard.core.errors import DtypeError


def from_hidden(hidden: Tensor) -> Tensor:
    """A mask of `nn.MultiheadAttention` (True = hidden) as ours (True = may be attended to), same shape."""
    return ~_boolean("hidden", hidden)


def to_hidden(mask: Tensor) -> Tensor:
    """Our mask (True = may be attended to) as one of `nn.MultiheadAttention` (True = hidden), same shape."""
    return ~_boolean("mask", mask)


def from_additive(added: Tensor) -> Tensor:
    """A float mask of 0 and −inf as ours, same shape; a mask with other numbers is a score term."""
    if not added.is_floating_point():
        raise DtypeError(f"added must be a float mask; got {added.dtype}. For booleans use from_hidden.")
    hidden = added == float("-inf")
    if not bool(((added == 0) | hidden).all()):
        raise ValueError(
            "added must hold 0 and −inf alone; got other numbers, which are a score term: "
            "use score + regard.positions.Bias(added)."
        )
    return ~hidden


def _boolean(name: str, mask: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise DtypeError(f"{name} must be boolean; got {mask.dtype}. For float masks use from_additive.")
    return mask
