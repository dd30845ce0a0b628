"""The work queue: a few workers answer, some requests wait, the others are refused and told when to retry.

Bounded is what waits, how long it waits, and how long it is worked on: then its worker is ended, and another
takes its place. One worker is at work; requests that wait meanwhile and may be answered together are one
batch, which costs a fraction of each by itself. A worker that has worked for longer than PATIENCE no longer
counts: a slow request does not hold up others. Requests that are in no batch may all be slow, so one worker
is kept for those that are. What nobody waits for any more is dropped, or ended if it takes longer than that.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from regard.serve.worker import ANSWER, REFUSED, Answer, Worker

WORKERS = 4
PATIENCE = 0.5  # seconds after which a worker is slow
SPARE = 2  # workers that are kept while there is nothing to do
STARTING = 60.0  # seconds that a worker may take to start: where an accelerator is, it loads the runs onto it
MOST = 32  # requests in a batch; fewer where batches take more than an eighth of the time there is


class QueueFull(Exception):
    """No more requests may wait, or one has waited for too long."""


class DeadlineExceeded(Exception):
    """An answer took too long, and its worker was ended."""


class Refused(Exception):
    """The request has no answer; the message says why."""


class WorkFailed(Exception):
    """The worker failed or died."""


class Abandoned(Exception):
    """Nobody waits for the answer any more."""


@dataclass(eq=False)
class Job:
    """A request: what to do, with what; jobs of the same `batch`, if it has one, may be done together."""

    do: str
    asked: Any
    batch: str | None
    reply: "asyncio.Future[bytes]"
    retried: bool = False

    def fail(self, error: Exception) -> None:
        """Tell whoever waits."""
        if not self.reply.done():
            self.reply.set_exception(error)


@dataclass(eq=False)
class Batch:
    """Jobs at work."""

    jobs: list[Job]
    worker: Worker | None = None  # None: it is being started
    since: float = field(default_factory=monotonic)
    slow: bool = False  # it has taken longer than the others should wait


class WorkQueue:
    """Has workers answer; at most `room` requests are inside.

    A request may wait for so many seconds, and then be worked on for as many.
    """

    def __init__(self, prepare: Callable[[], Answer], *, room: int, seconds: float, threads: int = 1):
        self.room, self.seconds, self.inside, self.closed = room, seconds, 0, False
        self._start = partial(Worker.start, prepare, seconds, threads)
        self._waiting: deque[Job] = deque()
        self._working: dict[Batch, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # the same, and those that wait for a worker to be gone
        self._idle: list[Worker] = []
        self._most: dict[str, int] = defaultdict(lambda: MOST // 4)  # requests in the next batch

    async def run(
        self, do: str, asked: Any, batch: str | None = None, gone: Callable[[], Awaitable[Any]] | None = None
    ) -> bytes:
        """The answer; raises one of the above. `gone` returns when nobody waits for it any more."""
        if self.closed or self.inside >= self.room:
            raise QueueFull
        loop = asyncio.get_running_loop()
        job = Job(do, asked, batch, loop.create_future())
        left: asyncio.Future[Any] = asyncio.ensure_future((gone or asyncio.Event().wait)())
        self.inside += 1
        self._waiting.append(job)
        expiry = loop.call_later(self.seconds, self._expire, job)
        self._dispatch()
        try:
            await asyncio.wait([job.reply, left], return_when=asyncio.FIRST_COMPLETED)
            if not job.reply.done():
                raise Abandoned
            return job.reply.result()
        finally:
            self.inside -= 1
            expiry.cancel()
            left.cancel()
            self._drop(job)

    def health(self) -> dict[str, Any]:
        """Whether a short request would be begun at once, and how many wait and are at work."""
        starting = any(batch.worker is None for batch in self._working)
        state = "ready" if self._has_room() else "loading" if starting else "busy"
        working = sum(len(batch.jobs) for batch in self._working)
        return {"state": state, "waiting": len(self._waiting), "working": working}

    async def close(self) -> None:
        """End all workers, and drop what waits."""
        self.closed = True
        for job in (*self._waiting, *(job for batch in self._working for job in batch.jobs)):
            job.fail(QueueFull())
        self._waiting.clear()
        for batch, task in self._working.items():
            batch.worker.kill() if batch.worker is not None else task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self._idle:
            await self._idle.pop().end()

    def _has_room(self, kept: int = 0) -> bool:
        """Whether a worker may begin, and leave so many free."""
        return all(batch.slow for batch in self._working) and len(self._working) < WORKERS - kept

    def _dispatch(self) -> None:
        """Put to work what waits and may be worked on now."""
        while not self.closed and (jobs := self._next()):
            batch = Batch(jobs)
            task = self._working[batch] = asyncio.create_task(self._work(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _next(self) -> list[Job]:
        """The job that has waited longest, of those that may begin, and those that may be done with it."""
        free = self._has_room(0), self._has_room(1)  # for a job of a batch, and for others
        first = next((job for job in self._waiting if free[job.batch is None]), None)
        if first is None:
            return []
        self._waiting.remove(first)
        if first.batch is None:
            return [first]
        others = [job for job in self._waiting if job.batch == first.batch][: self._most[first.batch] - 1]
        for job in others:
            self._waiting.remove(job)
        return [first, *others]

    async def _work(self, batch: Batch) -> None:
        error: Exception | None = None
        try:
            async with asyncio.timeout(STARTING):
                batch.worker = await self._free_worker()
            batch.since = monotonic()
            asyncio.get_running_loop().call_later(PATIENCE, self._wait_no_longer, batch)
            async with asyncio.timeout(self.seconds):
                await self._ask(batch.worker, batch.jobs)
        except TimeoutError:
            error = DeadlineExceeded()
        except (EOFError, OSError):  # it died, or could not be started
            error = WorkFailed()
        finally:
            del self._working[batch]
            await self._after(batch, error)

    def _wait_no_longer(self, batch: Batch) -> None:
        batch.slow = True
        self._dispatch()

    async def _free_worker(self) -> Worker:
        while self._idle:
            worker = self._idle.pop()
            if not worker.reader.at_eof():
                return worker
            await worker.end()  # somebody else has ended it
        return await self._start()

    async def _ask(self, worker: Worker, jobs: list[Job]) -> None:
        question = {"do": jobs[0].do, "asked": [job.asked for job in jobs]}
        waiting = iter(jobs)
        async for kind, body in worker.ask(question, len(jobs)):
            job = next(waiting)
            if kind == REFUSED:
                job.fail(Refused(body.decode()))
            elif kind != ANSWER:
                job.fail(WorkFailed())
            elif not job.reply.done():
                job.reply.set_result(body)

    async def _after(self, batch: Batch, error: Exception | None) -> None:
        worker, left = batch.worker, [job for job in batch.jobs if not job.reply.done()]
        name, took = batch.jobs[0].batch, monotonic() - batch.since
        if name is not None:
            by = 2 if took < self.seconds / 16 else 0.5 if took > self.seconds / 8 else 1
            self._most[name] = max(1, min(MOST, int(self._most[name] * by)))
        found_dead = isinstance(error, WorkFailed) and worker is not None and worker.questions > 1
        if error is not None and (len(batch.jobs) > 1 or (found_dead and not batch.jobs[0].retried)):
            for job in reversed(left):  # one may be to blame, or the worker had died before: each alone
                job.batch, job.retried = None, found_dead
                self._waiting.appendleft(job)
        elif error is not None:
            for job in left:
                job.fail(error)
        if worker is not None and error is None and not left and len(self._idle) < SPARE:
            self._idle.append(worker)
        elif worker is not None:
            await worker.end()
        self._dispatch()

    def _expire(self, job: Job) -> None:
        if job in self._waiting:
            self._waiting.remove(job)
            job.fail(QueueFull())

    def _drop(self, job: Job) -> None:
        """Nobody waits for this job any more."""
        if not job.reply.cancel():
            return
        if job in self._waiting:
            self._waiting.remove(job)
        for batch in self._working:
            if job in batch.jobs and all(one.reply.done() for one in batch.jobs):
                after = max(0.0, batch.since + PATIENCE - monotonic())
                asyncio.get_running_loop().call_later(after, self._end, batch)

    def _end(self, batch: Batch) -> None:
        if batch in self._working and batch.worker is not None:
            batch.worker.kill()
