"""Checks of shape, dtype and device, done before any work."""

import torch
from torch import Tensor

from regard.core.errors import DeviceError, DtypeError, ShapeError

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check(name: str, tensor: Tensor, axes: str, **sizes: int) -> None:
    """Require the last axes of a tensor: check("keys", keys, "... n d_k", d_k=8)."""
    wanted = axes.split()[1:]  # without the dots
    if tensor.dim() < len(wanted) or any(
        axis in sizes and tensor.shape[k - len(wanted)] != sizes[axis] for k, axis in enumerate(wanted)
    ):
        known = ", ".join(f"{axis}={sizes[axis]}" for axis in wanted if axis in sizes)
        expected = f"({', '.join(axes.split())})" + (f" with {known}" if known else "")
        raise ShapeError(f"{name} must be {expected}; got {tuple(tensor.shape)}.")


def check_float(name: str, tensor: Tensor) -> None:
    """Require a real floating-point tensor."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a tensor; got {type(tensor).__name__}. Use torch.as_tensor({name}).")
    if tensor.dtype not in FLOATS:
        raise DtypeError(
            f"{name} must be float16, bfloat16, float32 or float64; got {tensor.dtype}. Use {name}.float()."
        )


def check_together(**tensors: Tensor) -> None:
    """Require that tensors share one device and one dtype."""
    (first, one), *others = tensors.items()
    for name, other in others:
        if other.device != one.device:
            raise DeviceError(
                f"{name} must be on {one.device} as {first} is; got {other.device}. "
                f"Use {name}.to({first}.device)."
            )
        if other.dtype != one.dtype:
            raise DtypeError(
                f"{name} must be {one.dtype} as {first} is; got {other.dtype}. Use {name}.to({first}.dtype)."
            )


def joined(*shapes: torch.Size) -> torch.Size:
    """The shape that all of these broadcast to."""
    first, *others = shapes
    if all(shape == first for shape in others):
        return first
    if not all(type(size) is int for shape in shapes for size in shape):  # while a tracer is at work
        return torch.Size(torch.broadcast_shapes(*shapes))
    axes = max(map(len, shapes))  # torch's own function takes 60 µs
    found = [1] * axes
    for shape in shapes:
        for axis, size in enumerate(shape, axes - len(shape)):
            if size != 1 and found[axis] != size:
                if found[axis] != 1:
                    raise RuntimeError(f"shapes that do not broadcast: {', '.join(map(str, shapes))}.")
                found[axis] = size
    return torch.Size(found)


def widened(tensor: Tensor) -> Tensor:
    """float16 and bfloat16 become float32, everything else stays: half precision is computed in float32."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def check_rate(name: str, rate: float) -> float:
    """Require a share of at least 0 and less than 1."""
    if not 0 <= rate < 1:
        raise ValueError(f"{name} must be at least 0 and less than 1; got {rate}.")
    return rate


def are_probabilities(rows: Tensor) -> bool:
    """Whether all rows (b, classes) are at least 0 and sum to 1."""
    sums = rows.sum(-1)
    return bool((rows >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-3)
