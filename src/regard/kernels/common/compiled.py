"""Numba's compiler with our settings: releases the GIL, cached on disk where the disk allows it.

Kernels are serial over a range of rows; `pool.over_rows` spreads the ranges over threads. Numba's own
parallel loops are not used: one of their layers aborts the process on concurrent calls, another kills forked
children.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reordered and multiplications fused; NaN and infinity keep their meaning, since −inf is a score.
REORDER = {"reassoc", "contract", "nsz", "arcp"}
OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": REORDER, "error_model": "numpy"}


@cache
def _stamp() -> tuple[tuple[str, int, int], ...]:
    """Which version of the kernels this is: a kernel may have others inlined, so all of them count."""
    folder = Path(__file__).parents[1]
    files = sorted(folder.rglob("*.py"))
    return tuple((str(f.relative_to(folder)), f.stat().st_mtime_ns, f.stat().st_size) for f in files)


def pasted(function: Any) -> Any:
    """Compile a function within those that call it, never alone: LLVM would have it once more in each."""
    return compiled(function, inline="always")


def compiled(function: F | None = None, **options: Any) -> Any:
    """Compile a kernel, as @compiled or @compiled(inline="always", ...)."""
    if function is None:
        return lambda f: compiled(f, **options)
    options = {**OPTIONS, **options}
    try:
        kernel = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no directory that could hold the cache: compile in every process
        return numba.njit(**options)(function)
    stamped(kernel)
    return kernel


def stamped(kernel: Any) -> None:
    """Compile a kernel again when any of them has changed: Numba would look at its own file alone."""
    file: Any = getattr(kernel._cache, "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        file._source_stamp = _stamp()
