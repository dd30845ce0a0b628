"""Grouped queries: several heads share keys and values, which are never copied.

Heads 0 … g − 1 share the first keys, g … 2g − 1 the second, and so on. Backends see query (..., kv, g, m, d)
and keys (..., kv, 1, n, d), whose axis of size 1 is shared; masks, terms and positions, which speak of (...,
heads, m, n), are given an axis more (`split`), and what users see loses it again (`merged`).

Ainslie et al. (2023), "GQA", arXiv:2305.13245.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import replace

from torch import Tensor

from regard.core.errors import ShapeError
from regard.core.place import Place
from regard.masks.mask import Given, Mask
from regard.scores.score import ByDistance, Products


def split(tensor: Tensor, groups: int, axis: int = -3, shared: bool = False) -> Tensor:
    """(..., heads, rest) to (..., heads / groups, groups, rest); an axis of 1, or none, serves all heads.

    What is `shared` has an axis of key heads: (..., kv, rest) to (..., kv, 1, rest).
    """
    if tensor.dim() < -axis:
        return tensor
    heads = tensor.shape[axis]
    if shared or heads == 1:
        return tensor.unsqueeze(axis)
    if heads % groups:
        raise ShapeError(f"heads must be a multiple of groups={groups}; got {tuple(tensor.shape)}.")
    apart: Tensor = tensor.unflatten(axis, (heads // groups, groups))
    return apart


def merged(tensor: Tensor, heads: int, axis: int = -3) -> Tensor:
    """(..., kv, g, rest) to (..., heads, rest), axes of 1 to one of 1: what `split` did, undone."""
    if tensor.dim() < 1 - axis:
        return tensor
    kv, g = tensor.shape[axis - 1], tensor.shape[axis]
    if kv * g not in (1, heads):
        kv, g = (kv, heads // kv) if g == 1 else (heads // g, g)
        shape = (*tensor.shape[: axis - 1], kv, g, *tensor.shape[axis + 1 :])
        tensor = tensor.expand(shape)
    return tensor.flatten(axis - 1, axis)


def split_mask(mask: Mask, groups: int) -> Mask:
    """A mask for (..., kv, g, m, n) of one for (..., heads, m, n)."""
    return _in_given(mask, lambda allowed: split(allowed, groups))


def merged_mask(mask: Mask, heads: int) -> Mask:
    """The mask for (..., heads, m, n) that `split_mask` was given."""
    return _in_given(mask, lambda allowed: merged(allowed, heads))


def split_place(place: Place, groups: int) -> Place:
    """Positions for (..., kv, g, m, n) of those for (..., heads, m, n)."""
    return _in_place(place, lambda t, axis: split(t, groups, axis))


def merged_place(place: Place, heads: int) -> Place:
    """The positions for (..., heads, m, n) that `split_place` was given."""
    return _in_place(place, lambda t, axis: merged(t, heads, axis))


def split_products(products: Products, groups: int, kv: int) -> Products:
    """Products with query (..., kv, g, m, d) and keys (..., kv, 1, n, d)."""
    keys, bias, distance = products.keys, products.bias, products.distance
    return replace(
        products,
        query=split(products.query, groups),
        keys=split(keys, groups, shared=keys.dim() < 3 or keys.shape[-3] in (1, kv)),
        bias=None if bias is None else split(bias, groups),
        distance=None if distance is None else ByDistance(split(distance.table, groups), distance.first),
    )


def copied(keys: Tensor, groups: int) -> Tensor:
    """Keys (..., kv, 1, n, d) once for each head, (..., heads, n, d)."""
    return keys.expand(*keys.shape[:-3], groups, *keys.shape[-2:]).flatten(-4, -3)


def _in_given(mask: Mask, change: Callable[[Tensor], Tensor]) -> Mask:
    """The mask with its boolean tensors changed, also those of the masks that it is made of."""
    if isinstance(mask, Given):
        return Given(change(mask.allowed))
    made = copy(mask)
    for name, part in vars(mask).items():
        if isinstance(part, Mask):
            setattr(made, name, _in_given(part, change))
        elif isinstance(part, list | tuple) and any(isinstance(one, Mask) for one in part):
            setattr(made, name, type(part)(_in_given(one, change) for one in part))
    return made


def _in_place(place: Place, change: Callable[[Tensor, int], Tensor]) -> Place:
    previous, total, visible = (
        None if t is None else change(t, -3) for t in (place.previous, place.total, place.visible)
    )
    queries, keys = change(place.queries, -2), change(place.keys, -2)
    return replace(place, queries=queries, keys=keys, previous=previous, total=total, visible=visible)
