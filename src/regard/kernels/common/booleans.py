"""Any and all of booleans: torch reduces bytes some forty times faster than booleans, on a CPU."""

import torch
from torch import Tensor

from regard.kernels.common.operator import is_plain


def any_of(mask: Tensor, axis: int) -> Tensor:
    """Whether any element along an axis is True."""
    if not is_plain(mask) or not mask.numel():
        return mask.any(axis)
    return mask.view(torch.uint8).amax(axis).view(torch.bool)


def unless_all(mask: Tensor) -> Tensor | None:
    """None if all elements are True and one can look; else the mask."""
    if is_plain(mask) and (not mask.numel() or bool(mask.view(torch.uint8).amin())):
        return None
    return mask


def minus_infinity_unless(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where it is True, −inf where it is False: 1 − 1/x of 1 and 0, twenty times faster than a fill."""
    return visible.view(torch.uint8).to(dtype).reciprocal_().neg_().add_(1)
