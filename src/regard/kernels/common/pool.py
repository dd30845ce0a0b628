"""Several threads for kernels that release the GIL: torch's own, or a few of Python's.

torch's threads come first: they are awake after any operation of torch, and spin on the core that another
thread would have to share with them. They are reached through the OpenMP runtime that torch itself has loaded
(GNU's, on Linux). A forked child has none of them, and elsewhere there may be another runtime: then it is a
pool of Python's threads, made on first use and made anew after a fork. Both are as wide as
`torch.get_num_threads()`, and may be used by many callers at once.

In a forked child kernels run; torch's own parallel operations wait there for threads it does not have, as
after any parallel operation in the parent.
"""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

import torch

_pool: ThreadPoolExecutor | None = None
_width = 0
_lock = Lock()
_forked = False
load_kernels = cache(import_module)  # a module of kernels by name, when one runs: it imports Numba
_Task = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _after_fork() -> None:
    global _pool, _width, _lock, _forked
    _pool, _width, _lock, _forked = None, 0, Lock(), True


os.register_at_fork(after_in_child=_after_fork)


def _workers(width: int) -> ThreadPoolExecutor:
    global _pool, _width
    with _lock:
        if _pool is None or _width < width:
            _pool, _width = ThreadPoolExecutor(width, thread_name_prefix="regard"), width
        return _pool


@cache
def _openmp() -> Any:
    """`GOMP_parallel` of the one OpenMP runtime in this process; None if there is no such thing."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    loaded = {line.split(maxsplit=5)[-1] for line in lines if "libgomp" in line or "libiomp" in line}
    if len(loaded) != 1:
        return None
    try:
        parallel = ctypes.CDLL(loaded.pop()).GOMP_parallel
    except (OSError, AttributeError):
        return None
    parallel.argtypes, parallel.restype = (_Task, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint), None
    return parallel


def call_in_threads(callback: Any, struct: int, width: int) -> None:
    """Call a `native.callback` with the address of its struct, in so many threads at once."""
    if width <= 1:
        callback(struct)
    elif _forked or (parallel := _openmp()) is None:
        _in_pool(lambda: callback(struct), width)
    else:
        parallel(callback, struct, width, 0)


def _in_pool(run: Callable[[], None], width: int) -> None:
    tasks = [_workers(width - 1).submit(run) for _ in range(width - 1)]
    try:
        run()
    finally:
        for task in tasks:
            if not task.cancel():
                task.result()


def _in_threads(run: Callable[[], None], width: int) -> None:
    """Call run in so many threads at once, this one among them; an error is raised when all are done."""
    parallel = None if _forked else _openmp()
    if parallel is None:
        _in_pool(run, width)
        return
    errors: list[BaseException] = []

    def guarded(_: Any) -> None:  # an error cannot pass through C
        try:
            run()
        except BaseException as error:
            errors.append(error)

    outlined = _Task(guarded)
    parallel(outlined, None, width, 0)
    if errors:
        raise errors[0]


def over_rows(
    kernel: Callable[..., Any], rows: int, work: int, *arguments: Any, least: int = 1 << 15, pieces: int = 4
) -> None:
    """Call kernel(start, stop, *arguments) on ranges that cover the rows, several at once where it pays.

    `work` is the number of elements touched in all; below `least` per thread the caller does everything
    itself. Each thread claims its next of about `pieces` ranges when it is done with the last, so one that is
    late keeps nobody waiting.
    """
    width = min(torch.get_num_threads(), rows, work // least)
    if width <= 1:
        kernel(0, rows, *arguments)
        return
    step = -(-rows // (width * pieces))
    claim = count(0, step).__next__  # atomic, like every call into C

    def run() -> None:
        while (start := claim()) < rows:
            kernel(start, min(start + step, rows), *arguments)

    _in_threads(run, width)
