"""How tensors that broadcast are handed to the kernels of sparse attention: by their slices, not copied.

A tensor (..., a, b) has slices (a, b), one for each place of the axes before. Those of the batch are numbered
in order; where an axis of a tensor has size 1, slices of the batch share one slice of the tensor.
"""

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from regard.kernels.common.pool import over_rows

Numbers = NDArray[np.int64]
Sizes = tuple[int, ...]


@lru_cache(256)
def slices(own: Sizes, batch: Sizes) -> Numbers:
    """Which slice of a tensor (*own, ...) each slice of the batch reads: (B,)."""
    return places(own, tuple(prod(own[axis + 1 :]) for axis in range(len(own))), batch)


@lru_cache(256)
def places(own: Sizes, steps: Sizes, batch: Sizes) -> Numbers:
    """Where the slice that each slice of the batch reads begins, from the steps along the axes: (B,)."""
    at = np.zeros(batch, np.int64)
    for axis, (size, step) in enumerate(zip(reversed(own), reversed(steps), strict=True)):
        at += (np.arange(size) * step).reshape(-1, *[1] * axis)
    return at.reshape(-1)


@lru_cache(256)
def components(batch: Sizes, *shared: Sizes) -> Numbers:
    """Slices of the batch that share a slice of one of these tensors, in rows: (components, slices each)."""
    axes = len(batch)
    whole = [(1,) * (axes - len(own)) + own for own in shared]
    own = tuple(min(sizes) for sizes in zip(batch, *whole, strict=True))
    return np.argsort(slices(own, batch), kind="stable").reshape(prod(own), -1)


def matrices(tensor: Tensor | None, batch: Sizes, dtype: Any) -> tuple[Any, Numbers, int, int]:
    """The numbers behind a tensor (..., m or 1, n or 1), where slices begin, and its steps along m and n."""
    if tensor is None:
        return np.empty(0, dtype), slices((), batch), 0, 0
    steps = [0 if size == 1 else step for size, step in zip(tensor.shape, tensor.stride(), strict=True)]
    last = sum((size - 1) * step for size, step in zip(tensor.shape, steps, strict=True))
    flat = tensor.detach().as_strided((last + 1,), (1,)).numpy()
    return flat.view(dtype), places(tuple(tensor.shape[:-2]), tuple(steps[:-2]), batch), steps[-2], steps[-1]


def panels_of(keys: Tensor) -> Tensor:
    """Keys (B, n, d) as the kernels read them: (B, ⌈n / w⌉, d, w), w keys side by side."""
    from regard.kernels.attention.sparse_tile import pack

    (batch, n, d), wide = keys.shape, 64 // keys.element_size()
    panels = keys.new_empty(batch, -(-n // wide), d, wide)
    over_rows(pack, batch * panels.shape[1], keys.numel(), *arrays(keys, panels))
    return panels


def whole_vectors(tensor: Tensor) -> Tensor:
    """(..., a, d) as (B, a, d), contiguous, d filled up with zeros to 32 bytes, as kernels read them."""
    missing = -tensor.shape[-1] % (32 // tensor.element_size())
    tensor = (F.pad(tensor, (0, missing)) if missing else tensor).contiguous()
    return tensor.view(-1, *tensor.shape[-2:])


def zeros(like: Tensor, *shape: int) -> Tensor:
    """Zeros as the system hands them out: torch would write them."""
    return torch.from_numpy(np.zeros(shape, like.detach().numpy().dtype))


def arrays(*tensors: Tensor) -> tuple[NDArray[Any], ...]:
    """The same as NumPy sees them."""
    return tuple(t.detach().numpy() for t in tensors)
