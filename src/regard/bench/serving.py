"""Serving: many clients at once for a while, and what it does to answers, waiting and memory.

`regard serve` runs in a process of its own, on a run made for the purpose: the demo's Transformer, hardly
trained, which writes targets as long as it may (12 tokens). Each client has one connection and asks for
another sentence whenever it has its answer. A full server answers 503 with Retry-After; a client then waits
about as long. Anything but 200 and 503 is an error, and no error is allowed. Memory is of the server and its
workers, which share most of it; that of files, as libraries are, is not counted.
"""

import asyncio
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any

from regard.bench.timed_case import Claim, Measured, Result, TimedCase
from regard.bench.timing import QUICK, Effort
from regard.data import CORPORA
from regard.runs import fit, resolve

GROUPS = ["serving"]
CLIENTS = (16, 200)
MODEL = {"name": "transformer", "width": 128, "inner": 256, "heads": 4, "layers": 2, "dropout": 0.0}
SETTINGS: dict[str, Any] = {
    "task": "translation",
    "data": {"corpus": "phrases-de", "pairs": 2000, "held_out": 4, "vocabulary": 500, "longest": 64},
    "model": MODEL,
    "training": {"steps": 2, "tokens": 512, "validate": 2, "save": 2},
    "decoding": {"beam": 1, "most": 12},
}
COMMAND = [sys.executable, "-c", "from regard.cli import main; main()", "serve"]


@dataclass
class Load:
    """What some clients measured."""

    clients: int
    seconds: float
    waits: list[float]  # seconds from each request to its answer, retries included
    full: int = 0  # 503
    errors: list[int] = field(default_factory=list)  # their codes; 0 where none came
    before: float = 0.0  # mebibytes of the server, once a tenth of the time is over
    after: float = 0.0

    @property
    def p95(self) -> float:
        """Seconds that 95 of 100 answers took at most."""
        return sorted(self.waits)[int(0.95 * (len(self.waits) - 1))]

    @property
    def per_answer(self) -> float:
        """Seconds of the server for each answer."""
        return self.seconds / len(self.waits)


def cases(clients: Sequence[int] = CLIENTS, seconds: float = 30.0) -> list[TimedCase]:
    """What must hold of a server with so many clients for so long; all of it is measured once."""
    loads, found = cache(partial(measured, tuple(clients), seconds)), list[TimedCase]()
    for count in clients:
        who, limit = f"{count} clients, {seconds:g} s", 12.0 if count == 16 else None
        each = partial(_compared, loads, count, "per_answer")
        p95 = partial(_compared, loads, count, "p95")
        waiting = Claim(f"serving {count} clients, 95th percentile of waiting", "one client", limit)
        found.append(
            Answers("serving", Claim(f"serving {count} clients, time per answer", "one client"), who, each)
        )
        found.append(TimedCase("serving", waiting, f"{who}, p95", p95))

    def memory(effort: Effort) -> Measured:
        many = loads(effort)[max(clients)]
        return Measured(many.seconds, many.seconds, None, many.after, many.before)

    what = f"{max(clients)} clients, {seconds:g} s, memory"
    claim = Claim("serving, memory", "a tenth of the time in", 1.1)
    return [*found, TimedCase("serving", claim, what, memory)]


def _compared(
    loads: Callable[[Effort], dict[int, Load]], clients: int, what: str, effort: Effort
) -> Measured:
    """A property of the load of many clients, and of one."""
    found = loads(effort)
    return Measured(getattr(found[clients], what), getattr(found[1], what))


@dataclass(frozen=True)
class Answers(TimedCase):
    """A case that also reports answers per second."""

    def measure(self, effort: Effort) -> Result:
        found = super().measure(effort)
        return replace(found, what=f"{found.what}, {1 / found.seconds:.0f} answers per second")


def measured(clients: Sequence[int], seconds: float, effort: Effort) -> dict[int, Load]:
    """The load of one client alone, then of so many at once; with less effort for a tenth of the time."""
    seconds = seconds / 10 if effort == QUICK else seconds
    with tempfile.TemporaryDirectory() as folder:
        fit(resolve(SETTINGS), Path(folder) / "run")
        with server(Path(folder) / "run") as (port, process):
            found = {1: asyncio.run(ask(port, process, 1, max(seconds / 6, 0.5)))}
            for count in clients:
                found[count] = asyncio.run(ask(port, process, count, seconds))
            after = asyncio.run(ask(port, process, 1, 0.5))
            if process.poll() is not None:
                raise RuntimeError("the server has died")
    if errors := [code for load in (*found.values(), after) for code in load.errors]:
        raise RuntimeError(f"{len(errors)} answers were neither 200 nor 503: {Counter(errors)}")
    return found


@contextmanager
def server(run: Path) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """The port and process of a server of this run."""
    process = subprocess.Popen([*COMMAND, str(run), "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise RuntimeError("the server did not start")
        yield int(address.rstrip("/").rpartition(":")[2]), process
    finally:
        process.terminate()
        process.wait(30)


async def ask(port: int, process: "subprocess.Popen[str]", clients: int, seconds: float) -> Load:
    """Have clients send requests for some seconds; those waiting then still get their answers."""
    load, said = Load(clients, seconds, []), sentences()

    async def weigh() -> None:
        await asyncio.sleep(seconds / 10)
        load.before = mebibytes(process.pid)
        await asyncio.sleep(seconds * 0.88)
        load.after = mebibytes(process.pid)

    started = monotonic()
    until = started + seconds
    await asyncio.gather(weigh(), *(client(port, load, said, until) for _ in range(clients)))
    load.seconds = monotonic() - started
    if not load.waits:
        raise RuntimeError("the server answered nobody")
    return load


@cache
def sentences() -> list[str]:
    """The texts of the requests."""
    return [pair.source for pair in islice(CORPORA["phrases-de"](seed=2, split="test"), 500)]


async def client(port: int, load: Load, said: list[str], until: float) -> None:
    """One client: sends requests, waits, retries."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while monotonic() < until:
        started = monotonic()
        question = {"run": "run", "text": random.choice(said)}
        while True:
            status = await post(reader, writer, port, json.dumps(question).encode())
            if status != 503 or monotonic() > until:
                break
            load.full += 1
            await asyncio.sleep(random.uniform(0.5, 1.5))
        if status == 200:
            load.waits.append(monotonic() - started)
        elif status != 503:
            load.errors.append(status)
    writer.close()


async def post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, body: bytes) -> int:
    """Send a request, read all of the answer, return its status; 0 if there is none."""
    head = (
        f"POST /api/inspect HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    try:
        writer.write(head.encode() + body)
        answer = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)).decode("latin-1").lower()
        length = int(answer.partition("content-length:")[2].partition("\r\n")[0])
        await asyncio.wait_for(reader.readexactly(length), 60)
        return int(answer.split()[1])
    except (OSError, EOFError, ValueError, TimeoutError):
        return 0


def mebibytes(pid: int) -> float:
    """Resident memory of a process and of those it has started, each shared page counted once.

    Pages of files are left out: libraries of torch alone have 200 MiB, and how much of them counts as ours
    changes whenever another process that uses them starts or ends.
    """
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    except OSError:  # it has ended meanwhile, as workers do, or there is no such file here
        return 0.0 if Path("/proc/self/smaps_rollup").exists() else float("nan")
    own = sum(int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:"))) / 1024
    return own + sum(mebibytes(int(child)) for child in children)
