"""The processes of a run: which one this is, and what they agree on.

torchrun starts the same command several times, on one machine or on many, and tells each process by its
environment which one it is. Process 0, the first, alone writes files and speaks; what it finds or decides is
told to the others, since a process that waits for one that went another way would wait for ever. What they
tell each other is numbers and JSON.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from regard.core.errors import SettingsError
from regard.training.meeting import met
from regard.training.task import Diverged, Interrupted

TIMEOUT = timedelta(minutes=10)  # how long a process waits for a sign of the others

WORKING: dict[str, Any] = {"working": True}
FAILED: dict[str, Any] = {"failed": True}

T = TypeVar("T")


class Lost(RuntimeError):
    """Another process of the run ended, or never came up."""


class Ended(RuntimeError):
    """The first process ended, and has said why."""


@dataclass(frozen=True)
class Team:
    """The processes of a run, as one of them sees them; by default it is alone."""

    rank: int = 0
    size: int = 1
    device: str = "cpu"  # of this process
    again: bool = False  # started once more, after one of them was lost

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def sum(self, *values: float) -> list[float]:
        """Each of these numbers, summed over the processes."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return [float(value) for value in total]

    def tell(self, value: T) -> T:
        """What the first process gives here, in all of them: anything JSON has."""
        if self.size == 1:
            return value
        text = bytearray(json.dumps(value if self.first else None), "utf-8")
        length = torch.tensor(len(text))
        dist.broadcast(length, 0)
        content = torch.frombuffer(text, dtype=torch.uint8) if self.first else None
        if content is None:
            content = torch.empty(int(length), dtype=torch.uint8)
        dist.broadcast(content, 0)
        return json.loads(content.numpy().tobytes())  # type: ignore[no-any-return]

    def led(self, work: Callable[[], T]) -> T:
        """Work that the first process does while the others wait; if it fails, they end too."""
        if self.size == 1:
            return work()
        if not self.first:
            outcome: Any = WORKING
            while outcome == WORKING:
                outcome = self.tell(outcome)
            if outcome == FAILED:
                raise Ended("process 0 ended, and has said why.")
            return outcome["value"]  # type: ignore[no-any-return]
        try:
            with self._signs():
                value = work()
        except BaseException:
            with suppress(RuntimeError):  # what is said is why it failed, not that another one is lost too
                self.tell(FAILED)
            raise
        self.tell({"value": value})
        return value

    @contextmanager
    def _signs(self) -> Iterator[None]:
        """While it lasts, the others hear that the first is at work, however long that takes."""
        done = threading.Event()

        def keep_telling() -> None:
            with suppress(RuntimeError):  # that another one is lost is seen when the work is done
                while not done.wait(TIMEOUT.total_seconds() / 10):
                    self.tell(WORKING)

        thread = threading.Thread(target=keep_telling, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


ALONE = Team()  # one process


@contextmanager
def joined(device: str = "cpu") -> Iterator[Team]:
    """The processes that torchrun started, until the block ends; without torchrun, this one alone.

    With several on one machine, "cuda" is a GPU for each. A process that is lost is a `Lost` in the others.
    """
    again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"  # on this machine
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or "MASTER_ADDR" not in os.environ:
        yield Team(device=device, again=again)
        return
    device, backend = _own(device)
    try:
        store, *_ = next(rendezvous("env://", timeout=TIMEOUT))
        store = met(store, rank, size, TIMEOUT)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
        (lives,) = Team(rank, size).sum(again)
    except RuntimeError as error:
        raise Lost(
            f"process {rank} of {size}: not all came up within {TIMEOUT.total_seconds():.0f} seconds "
            f"({_gist(error)}). Start them all, with the same --nnodes and --nproc-per-node."
        ) from None
    try:
        yield Team(rank, size, device, lives > 0)
    except (Diverged, Interrupted) as error:
        if rank == 0:
            raise
        raise Ended(str(error)) from None  # as all do, and the first says why
    except RuntimeError as error:
        if not (isinstance(error, dist.DistError) or "gloo" in str(error)):
            raise
        raise Lost(
            f"process {rank} of {size}: another one was lost ({_gist(error)}). The run goes on from its last "
            "checkpoint with --resume, or by itself with torchrun --max-restarts."
        ) from None
    dist.destroy_process_group()


def _own(device: str) -> tuple[str, str]:
    """The device of this process among those of its machine, and how tensors on it are exchanged."""
    if device == "cpu":
        return device, "gloo"
    if device != "cuda":
        raise SettingsError(f"several processes need --device cpu or cuda; got {device}.")
    here, processes = int(os.environ.get("LOCAL_RANK", "0")), os.environ.get("LOCAL_WORLD_SIZE", "1")
    if here >= torch.cuda.device_count():
        raise SettingsError(
            f"each process needs a GPU of its own: there are {processes} processes on this machine and "
            f"{torch.cuda.device_count()} GPUs. Start fewer, or use --device cpu."
        )
    torch.cuda.set_device(here)
    return f"cuda:{here}", "cpu:gloo,cuda:nccl"


def _gist(error: BaseException) -> str:
    """The first sentence of an error, without the place in somebody's source."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line.split("] ", 1)[-1].split(". ")[0].strip().rstrip(".")
