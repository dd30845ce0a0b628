"""The work queue: one thread works, a few requests wait, the others are refused and told when to retry.

A model uses all cores by itself, so requests take turns. What waits is bounded, and so is the memory.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from time import monotonic
from typing import TypeVar

from regard.inspection.deadline import deadline

T = TypeVar("T")


class QueueFull(Exception):
    """No more requests may wait, or one has waited for too long."""


class WorkQueue:
    """Runs work one after the other; at most `room` requests are inside, one of them running.

    A request may wait for so many seconds, and then run for as many.
    """

    def __init__(self, room: int, seconds: float):
        self.room, self.seconds, self.inside = room, seconds, 0
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="regard")

    async def run(self, work: Callable[[], T]) -> T:
        """What the work returns; `QueueFull` if it is not begun, `DeadlineExceeded` if not done, in time."""
        return await asyncio.wrap_future(self._submit(work))

    def close(self) -> None:
        """Drop what waits."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _submit(self, work: Callable[[], T]) -> "Future[T]":
        submitted = monotonic()

        def timed() -> T:
            now = monotonic()
            if now - submitted > self.seconds:
                raise QueueFull
            with deadline(now + self.seconds):
                return work()

        with self._lock:
            if self.inside >= self.room:
                raise QueueFull
            self.inside += 1
        try:
            future = self._thread.submit(timed)
        except RuntimeError:  # the server is shutting down
            self._done()
            raise QueueFull from None
        future.add_done_callback(self._done)  # also when nobody waits for the answer any more
        return future

    def _done(self, _: object = None) -> None:
        with self._lock:
            self.inside -= 1
