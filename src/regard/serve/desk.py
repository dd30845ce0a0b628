"""The desk: one thread works, a few requests wait, the others are told to come again.

Models are fast on all cores at once, so requests take turns. What waits is bounded, and so is the memory.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from time import monotonic
from typing import TypeVar

from regard.serve.deadline import until

T = TypeVar("T")


class Full(Exception):
    """As many wait as may."""


class Desk:
    """Runs work in turn; at most `room` requests are inside, one of them at work.

    A request may wait for so many seconds, and then work for as many.
    """

    def __init__(self, room: int, seconds: float):
        self.room, self.seconds, self.inside = room, seconds, 0
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="regard")

    async def ask(self, work: Callable[[], T]) -> T:
        """What the work returns; `Full` if its turn does not come, `Late` if it is not done, in time."""
        return await asyncio.wrap_future(self._enter(work))

    def close(self) -> None:
        """Let go of what waits."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _enter(self, work: Callable[[], T]) -> "Future[T]":
        entered = monotonic()

        def timed() -> T:
            now = monotonic()
            if now - entered > self.seconds:
                raise Full
            with until(now + self.seconds):
                return work()

        with self._lock:
            if self.inside >= self.room:
                raise Full
            self.inside += 1
        try:
            future = self._thread.submit(timed)
        except RuntimeError:  # the server is shutting down
            self._leave()
            raise Full from None
        future.add_done_callback(self._leave)  # also when nobody waits for the answer any more
        return future

    def _leave(self, _: object = None) -> None:
        with self._lock:
            self.inside -= 1
