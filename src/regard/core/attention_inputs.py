"""Checks of query, keys and values: floating point, one dtype and device, shapes that fit."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import ShapeError
from regard.core.shapes import check, check_float, check_together, joined

# Shapes of plain tensors of one dtype that were found right: decoding repeats them.
_CHECKED: set[Any] = set()


def checked(query: Tensor, keys: Tensor, values: Tensor, groups: int) -> tuple[Tensor, Tensor, Tensor]:
    """Query, keys and values, of one dtype and shapes that fit; with groups these share keys."""
    alike = _alike(query, keys, values, groups)
    if alike in _CHECKED:
        return query, keys, values
    for name, tensor in (("query", query), ("keys", keys), ("values", values)):
        check_float(name, tensor)
    if _autocast(query):
        query, keys, values = _promoted(query, keys, values)
    check_together(query=query, keys=keys, values=values)
    check("query", query, "... m d_q")
    check("keys", keys, "... n d_k")
    check("values", values, "... n d_v", n=keys.shape[-2])
    if groups == 1:
        _check_batch(query, keys, values)
    else:
        _check_groups(query, keys, values, groups)
    if alike is not None:
        if len(_CHECKED) > 4096:
            _CHECKED.clear()
        _CHECKED.add(alike)
    return query, keys, values


def _check_batch(query: Tensor, keys: Tensor, values: Tensor) -> None:
    try:
        joined(query.shape[:-2], keys.shape[:-2], values.shape[:-2])
    except RuntimeError:
        shapes = ", ".join(str(tuple(t.shape)) for t in (query, keys, values))
        hint = ""
        if query.dim() > 2 < keys.dim() and query.shape[-3] % keys.shape[-3] == 0:
            hint = f" If heads share keys, write groups={query.shape[-3] // keys.shape[-3]}."
        raise ShapeError(
            f"the axes before the last two of query, keys and values must broadcast; got {shapes}.{hint}"
        ) from None


def _check_groups(query: Tensor, keys: Tensor, values: Tensor, groups: int) -> None:
    ok = groups > 1 and min(t.dim() for t in (query, keys, values)) > 2
    if ok:
        for shared in (keys, values):
            ok = ok and shared.shape[-3] * groups == query.shape[-3] and shared.shape[:-3] == query.shape[:-3]
    if not ok:
        shapes = ", ".join(str(tuple(t.shape)) for t in (query, keys, values))
        raise ShapeError(
            f"with groups={groups} the query must be (..., heads, m, d_q), keys and values "
            f"(..., heads / groups, n, ·) with the same axes before; got {shapes}."
        )


def _alike(query: Tensor, keys: Tensor, values: Tensor, groups: int) -> Any:
    """What the checks depend on; None where it may be more: a device, a subclass, a tracer, autocast."""
    if not (type(query) is type(keys) is type(values) is Tensor) or torch.compiler.is_compiling():
        return None
    if not (query.is_cpu and keys.is_cpu and values.is_cpu) or not query.dtype == keys.dtype == values.dtype:
        return None
    if torch.is_autocast_enabled("cpu") or torch._C._get_tracing_state() is not None:
        return None
    return query.dtype, query.shape, keys.shape, values.shape, groups


def _autocast(tensor: Tensor) -> bool:
    return not tensor.is_meta and torch.is_autocast_enabled(tensor.device.type)


def _promoted(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Under autocast some come in half precision and some not: all as the widest."""
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = torch.promote_types(dtype, t.dtype)
    return tuple(t.to(dtype) for t in tensors)


def exact(tensor: Tensor) -> AbstractContextManager[Any]:
    """Autocast off: half precision is widened here, not the other way round."""
    return torch.autocast(tensor.device.type, enabled=False) if _autocast(tensor) else nullcontext()
