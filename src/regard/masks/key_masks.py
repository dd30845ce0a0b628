"""A mask taken apart: whether it is causal, and which keys it hides from every query alike.

Attentions that never compare a query with a single key can honour these two and no others.
"""

import torch
from torch import Tensor

from regard.masks.causal import Causal
from regard.masks.mask import And, Given, Mask, Not, Or


def causal_and_keys(
    mask: Mask | None, m: int, n: int, axes: int, device: torch.device
) -> tuple[bool, Tensor | None] | None:
    """Whether the mask is causal, and the keys (..., 1, n) it shows (None: all); None if it says more."""
    if mask is None:
        return False, None
    if isinstance(mask, And):
        parts = [causal_and_keys(part, m, n, axes, device) for part in (mask.one, mask.other)]
        if parts[0] is None or parts[1] is None:
            return None
        (one, shown), (other, more) = parts[0], parts[1]
        keys = shown if more is None else more if shown is None else shown & more
        return one or other, keys
    if type(mask) is Causal:
        return True, None
    keys = _keys(mask, m, n, axes, device)
    return None if keys is None else (False, keys)


def _keys(mask: Mask, m: int, n: int, axes: int, device: torch.device) -> Tensor | None:
    """The keys (..., 1, n) that every query sees alike; None if queries see different ones."""
    if isinstance(mask, And | Or):
        one, other = (_keys(part, m, n, axes, device) for part in (mask.one, mask.other))
        if one is None or other is None:
            return None
        return one & other if isinstance(mask, And) else one | other
    if isinstance(mask, Not):
        inner = _keys(mask.mask, m, n, axes, device)
        return None if inner is None else ~inner
    if isinstance(mask, Given):
        return mask.rows(0, 1, m, n, axes, device) if mask.allowed.shape[-2] == 1 else None
    ends = mask.interval(m, n, axes, device)
    if ends is None or any(end.shape[-1] > 1 for end in ends):
        return None
    return mask.rows(0, 1, m, n, axes, device)
