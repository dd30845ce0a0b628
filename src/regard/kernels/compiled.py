"""Numba's compiler with our settings: releases the GIL, cached on disk where the disk allows it.

Kernels are serial over a range of rows; `pool.over_rows` spreads the ranges over threads. Numba's own parallel
loops are not used: one of their layers aborts the process on concurrent calls, another kills forked children.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reordered and multiplications fused; NaN and infinity keep their meaning, since −inf is a score.
REORDER = {"reassoc", "contract", "nsz", "arcp"}


def compiled(function: F | None = None, **options: Any) -> Any:
    """Compile a kernel, as @compiled or @compiled(inline="always", ...)."""
    if function is None:
        return lambda f: compiled(f, **options)
    options = {"nogil": True, "fastmath": REORDER, "error_model": "numpy", **options}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no directory that could hold the cache: compile in every process
        return numba.njit(**options)(function)
