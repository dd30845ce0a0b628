"""The queue and its workers: what is bounded, what is done together, and what is ended."""

import asyncio
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep

import pytest

from regard.serve import work_queue
from regard.serve.work_queue import (
    Abandoned,
    DeadlineExceeded,
    QueueFull,
    Refused,
    WorkFailed,
    WorkQueue,
)
from regard.serve.worker import ANSWER, FAILED, REFUSED


def prepare():
    """What these workers do: each reply says the process and how many were answered together."""

    def answer(question):
        for one in question["asked"]:
            if question["do"] == "sleep" or one == "sleep":
                sleep(60)
            if one == "hang":
                re.match("(a*)*b", 60 * "a")  # holds the interpreter
            if one == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if one == "wait":
                sleep(0.3)
        for one in question["asked"]:
            kind = {"refuse": REFUSED, "fail": FAILED}.get(one, ANSWER)
            yield kind, f"{os.getpid()} {len(question['asked'])} {one}".encode()

    return answer


def run(scene, room=64, seconds=30.0):
    """Play a scene with a queue of its own, and see that it leaves no process behind."""

    async def played():
        queue = WorkQueue(prepare, room=room, seconds=seconds)
        try:
            return await scene(queue)
        finally:
            await queue.close()
            with pytest.raises(QueueFull):
                await queue.run("echo", "late")

    started, before = monotonic(), children()
    with ThreadPoolExecutor(1) as thread:  # this one may have the loop of a browser
        found = thread.submit(asyncio.run, played()).result()
    assert monotonic() - started < 50  # nothing waits for what sleeps
    assert children() <= before
    return found


def children():
    """The processes that this one has started, as far as they are not gone."""
    return {one for file in Path("/proc/self/task").glob("*/children") for one in file.read_text().split()}


def test_one_worker_answers_one_after_the_other_and_says_what_is_wrong():
    async def scene(queue):
        first = await queue.run("echo", "a")
        assert first.split()[0] == (await queue.run("echo", "ü\x00"))[: len(first.split()[0])]
        with pytest.raises(Refused, match="refuse"):
            await queue.run("echo", "refuse")
        with pytest.raises(WorkFailed):
            await queue.run("echo", "fail")
        assert queue.inside == 0 and queue.health() == {"state": "ready", "waiting": 0, "working": 0}
        assert int(first.split()[0]) != os.getpid()

    run(scene)


def test_there_is_so_much_room_and_no_more():
    async def scene(queue):
        one = asyncio.create_task(queue.run("echo", "wait"))
        two = asyncio.create_task(queue.run("echo", "b"))
        await asyncio.sleep(0)
        with pytest.raises(QueueFull):
            await queue.run("echo", "c")
        assert (await one).endswith(b"wait") and (await two).endswith(b"b")
        assert (await queue.run("echo", "c")).endswith(b"c")

    run(scene, room=2)


@pytest.mark.parametrize("how", ["sleep", "hang"])
def test_what_takes_too_long_is_ended(how):
    async def scene(queue):
        with pytest.raises(DeadlineExceeded):
            await queue.run("echo", how)
        assert (await queue.run("echo", "a")).endswith(b"a")

    run(scene, seconds=2.0)


def test_what_has_waited_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(work_queue, "WORKERS", 1)

    async def scene(queue):
        both = [asyncio.create_task(queue.run("echo", "sleep", f"run {k}")) for k in range(3)]
        found = await asyncio.gather(*both, return_exceptions=True)
        assert [type(one) for one in found] == [DeadlineExceeded, QueueFull, QueueFull]

    run(scene, seconds=0.5)


def test_a_worker_that_dies_takes_nobody_with_it():
    async def scene(queue):
        with pytest.raises(WorkFailed):
            await queue.run("echo", "die")
        pid = int((await queue.run("echo", "a")).split()[0])
        os.kill(pid, signal.SIGKILL)  # while it has nothing to do: nobody has heard of it yet
        assert (await queue.run("echo", "b")).endswith(b"b")
        with pytest.raises(WorkFailed):
            await queue.run("echo", "die")  # on a worker that has answered before

    run(scene)


def test_what_waits_together_is_one_batch_and_one_that_hangs_spoils_only_itself(monkeypatch):
    monkeypatch.setattr(work_queue, "PATIENCE", 5)

    async def scene(queue):
        first = asyncio.create_task(queue.run("echo", "wait"))
        words = ["a", "b", "c"]
        same = [asyncio.create_task(queue.run("echo", word, "run")) for word in words]
        other = asyncio.create_task(queue.run("echo", "d", "another run"))
        alone = asyncio.create_task(queue.run("echo", "e"))
        await first
        assert [(await one).split()[1:] for one in same] == [[b"3", word.encode()] for word in words]
        assert (await other).split()[1:] == [b"1", b"d"] and (await alone).split()[1:] == [b"1", b"e"]
        first = asyncio.create_task(queue.run("echo", "wait"))
        some = [asyncio.create_task(queue.run("echo", word, "run")) for word in ("a", "hang", "b", "die")]
        await first
        found = await asyncio.gather(*some, return_exceptions=True)
        assert found[0].split()[1:] == [b"1", b"a"] and found[2].split()[1:] == [b"1", b"b"]
        assert isinstance(found[1], DeadlineExceeded) and isinstance(found[3], WorkFailed)

    run(scene, seconds=3.0)


def test_batches_become_smaller_where_they_take_long():
    queue = WorkQueue(prepare, room=1, seconds=16)
    loop = asyncio.new_event_loop()
    job = work_queue.Job("echo", "a", "run", loop.create_future())
    sizes = []
    for took in (0.1, 0.1, 0.1, 1.5, 3, 3, 3, 3, 3, 3):
        batch = work_queue.Batch([job], since=monotonic() - took)
        loop.run_until_complete(queue._after(batch, None))
        sizes.append(queue._most["run"])
    loop.close()
    assert sizes == [16, 32, 32, 32, 16, 8, 4, 2, 1, 1]


def test_slow_work_does_not_count_and_what_nobody_waits_for_ends(monkeypatch):
    monkeypatch.setattr(work_queue, "PATIENCE", 0.2)

    async def scene(queue):
        gone = asyncio.Event()
        slow = [asyncio.create_task(queue.run("echo", "sleep", gone=gone.wait)) for _ in range(5)]
        async with asyncio.timeout(20):
            while queue.health() != {"state": "ready", "waiting": 2, "working": work_queue.WORKERS - 1}:
                await asyncio.sleep(0.02)
        short = await asyncio.wait_for(queue.run("echo", "a", "run"), 5)  # one worker is kept for these
        assert short.endswith(b"a") and queue.health()["waiting"] == 2
        gone.set()
        found = await asyncio.gather(*slow, return_exceptions=True)
        assert all(isinstance(one, Abandoned) for one in found)
        assert (await queue.run("echo", "a")).endswith(b"a")
        while queue.health()["working"]:
            await asyncio.sleep(0.02)
        assert len(queue._idle) <= work_queue.SPARE

    run(scene)
