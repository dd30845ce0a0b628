"""A few Python threads for kernels that release the GIL.

The pool is as wide as `torch.get_num_threads()`, made on first use and made anew in a forked child.
Concurrent callers share it; nothing here waits on a task that waits on the pool, so it cannot deadlock.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Lock
from typing import Any

import torch

_pool: ThreadPoolExecutor | None = None
_width = 0
_lock = Lock()


def _forget() -> None:
    global _pool, _width, _lock
    _pool, _width, _lock = None, 0, Lock()


os.register_at_fork(after_in_child=_forget)


def _workers(width: int) -> ThreadPoolExecutor:
    global _pool, _width
    with _lock:
        if _pool is None or _width < width:
            _pool, _width = ThreadPoolExecutor(width, thread_name_prefix="regard"), width
        return _pool


def over_rows(
    kernel: Callable[..., Any], rows: int, work: int, *arguments: Any, least: int = 1 << 15, pieces: int = 4
) -> None:
    """Call kernel(start, stop, *arguments) on ranges that cover the rows, several at once where it pays.

    `work` is the number of elements touched in all; below `least` per thread the caller does everything
    itself. Each thread claims its next of about `pieces` ranges when it is done with the last: a thread that
    wakes up late, or not at all on a busy machine, keeps nobody waiting.
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

    tasks = [_workers(width - 1).submit(run) for _ in range(width - 1)]
    try:
        run()
    finally:
        for task in tasks:
            if not task.cancel():
                task.result()
