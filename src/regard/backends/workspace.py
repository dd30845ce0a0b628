"""Memory that kernels of decoding steps work in: each thread keeps some for its next step."""

from threading import local
from typing import Any

import numpy as np

KEPT = 1 << 23  # bytes that a thread keeps
_kept = local()


def workspace(size: int, held: list[Any]) -> int:
    """The address of so many bytes: those this thread keeps, or if they are many, new ones, put into held."""
    if size > getattr(_kept, "size", 0):
        made = np.empty(size, np.uint8)
        if size > KEPT:
            held.append(made)
            return int(made.ctypes.data)
        _kept.bytes, _kept.size, _kept.address = made, size, int(made.ctypes.data)
    address: int = _kept.address
    return address
