"""A worker: a process that answers requests, and that can be ended at any moment.

It is forked from the server, which has loaded the runs: it is ready within milliseconds and shares their
memory. A fork copies no threads, so what the server computes it computes on one (`single_threaded`).

Server and worker have a pair of sockets. Over it go frames, a length (4 bytes) and so many bytes: JSON to the
worker; from it one byte that says what follows, and the body. The worker ends when the server does.
"""

import asyncio
import ctypes
import gc
import json
import os
import signal
import socket
import struct
import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import torch

LENGTH = struct.Struct("!I")
PR_SET_PDEATHSIG = 1
ANSWER, REFUSED, FAILED, STARTED = b"a", b"r", b"f", b"s"  # what a frame of a worker begins with
Reply = tuple[bytes, bytes]  # one of these, and the answer, or why it is refused
Answer = Callable[[Any], Iterable[Reply]]


class Worker:
    """The server's end of a worker."""

    def __init__(self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.pid, self.reader, self.writer = pid, reader, writer
        self.questions = 0  # that it was asked

    @classmethod
    async def start(cls, prepare: Callable[[], Answer], seconds: float, threads: int) -> "Worker":
        """Fork a worker; it calls `prepare` once, and what this returns for each question.

        A question that takes longer than so many seconds ends the worker, if the server does not.
        """
        ours, theirs = socket.socketpair()
        server, pid = os.getpid(), os.fork()
        if pid == 0:
            _work(theirs, prepare, seconds, threads, server)
        theirs.close()
        worker = cls(pid, *await asyncio.open_unix_connection(sock=ours))
        try:
            await worker._frame()
        except BaseException:
            await worker.end()
            raise
        return worker

    async def ask(self, question: Any, count: int) -> AsyncIterator[Reply]:
        """The `count` replies to a question, each as soon as it comes; EOFError if the worker has ended."""
        self.questions += 1
        self.writer.write(_framed(json.dumps(question).encode("ascii")))
        for _ in range(count):
            reply = await self._frame()
            yield reply[:1], reply[1:]

    async def _frame(self) -> bytes:
        (length,) = LENGTH.unpack(await self.reader.readexactly(LENGTH.size))
        return await self.reader.readexactly(length)

    def kill(self) -> None:
        """End it, whatever it does."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)  # it is our child until we have waited for it

    async def end(self) -> None:
        """End it, and wait until it is gone."""
        self.writer.close()
        self.kill()
        with suppress(ChildProcessError):
            while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
                await asyncio.sleep(0.005)


@contextmanager
def single_threaded() -> Iterator[None]:
    """Compute on one thread: a fork afterwards misses none."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _work(
    there: socket.socket, prepare: Callable[[], Answer], seconds: float, threads: int, server: int
) -> NoReturn:
    """Answer questions until the server is gone."""
    try:
        _leave_behind(there.fileno())
        _end_with(server)
        torch.set_num_threads(threads)
        answer = prepare()
        there.sendall(_framed(STARTED))
        while head := there.recv(LENGTH.size, socket.MSG_WAITALL):
            (length,) = LENGTH.unpack(head)
            question = json.loads(there.recv(length, socket.MSG_WAITALL))
            signal.setitimer(signal.ITIMER_REAL, seconds + 1)  # SIGALRM ends a process
            for kind, body in answer(question):
                there.sendall(_framed(kind + body))
            signal.setitimer(signal.ITIMER_REAL, 0)
            give_back()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def give_back() -> None:
    """Give memory that is free back to the system: glibc keeps that of the largest batch for ever."""
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def _leave_behind(socket: int) -> None:
    """Keep nothing of the server but its memory: no signal handler, no connection, no object to clean up."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches us too: the server decides
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    gc.freeze()  # what was open in the server is not closed here, under a number that is by then ours
    for handle in map(int, os.listdir("/dev/fd")):
        if handle > 2 and handle != socket:
            with suppress(OSError):
                os.close(handle)


def _end_with(server: int) -> None:
    """Be killed when the server dies; elsewhere than on Linux, end after the question at hand."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != server:
        os._exit(1)


def _framed(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body
