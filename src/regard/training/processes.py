"""The processes of a run: this one's rank, and what rank 0 broadcasts to the others.

torchrun starts the same command several times, on one machine or on many, and gives each process its rank in
the environment. Rank 0 alone writes files and prints; what it finds or decides is broadcast, so that all
ranks take the same branch (otherwise one would wait for ever in a collective the others never enter). What
is broadcast is JSON.
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
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from regard.core.errors import SettingsError
from regard.training.progress import Diverged, Interrupted
from regard.training.rendezvous import fresh_store

TIMEOUT = timedelta(minutes=10)  # of every collective operation

WORKING: dict[str, Any] = {"working": True}
FAILED: dict[str, Any] = {"failed": True}

T = TypeVar("T")


class Lost(RuntimeError):
    """Another process of the run ended, or never started."""


class Ended(RuntimeError):
    """Rank 0 ended, and has said why."""


@dataclass(frozen=True)
class Team:
    """The processes of a run, seen from one of them; by default there is only one."""

    rank: int = 0
    size: int = 1
    device: str = "cpu"  # of this process
    restarted: bool = False  # torchrun started it again after a process was lost

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which writes and prints."""
        return self.rank == 0

    def sum(self, *values: float) -> list[float]:
        """Each of these numbers, summed over the processes."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return [float(value) for value in total]

    def gather(self, tensor: Tensor) -> Tensor:
        """A tensor of each process, all of the same shape, one after the other: (size, …), on the CPU."""
        own = tensor.detach().cpu().contiguous()
        every = [own] if self.size == 1 else [torch.empty_like(own) for _ in range(self.size)]
        if self.size > 1:
            dist.all_gather(every, own)
        return torch.stack(every)

    def broadcast(self, value: T) -> T:
        """The value of rank 0, in every process: anything JSON has."""
        if self.size == 1:
            return value
        text = bytearray(json.dumps(value if self.first else None), "utf-8")
        length = torch.tensor(len(text))
        dist.broadcast(length, 0)
        content = torch.frombuffer(text, dtype=torch.uint8) if self.first else None
        if content is None:
            content = torch.empty(int(length), dtype=torch.uint8)
        dist.broadcast(content, 0)
        received: T = json.loads(content.numpy().tobytes())
        return received

    def on_rank_zero(self, work: Callable[[], T]) -> T:
        """Do work on rank 0 while the others wait; return its result everywhere. If it fails, all end."""
        if self.size == 1:
            return work()
        if not self.first:
            outcome: Any = WORKING
            while outcome == WORKING:
                outcome = self.broadcast(outcome)
            if outcome == FAILED:
                raise Ended("process 0 ended, and has said why.")
            found: T = outcome["value"]
            return found
        try:
            with self._heartbeat():
                value = work()
        except BaseException:
            with suppress(
                RuntimeError
            ):  # the first error is the one to report, not that another process is lost too
                self.broadcast(FAILED)
            raise
        self.broadcast({"value": value})
        return value

    @contextmanager
    def _heartbeat(self) -> Iterator[None]:
        """Send the waiting ranks a sign of life, so that long work is not taken for a lost process."""
        done = threading.Event()

        def keep_alive() -> None:
            with suppress(RuntimeError):  # a lost process is noticed when the work is done
                while not done.wait(TIMEOUT.total_seconds() / 10):
                    self.broadcast(WORKING)

        thread = threading.Thread(target=keep_alive, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


ALONE = Team()  # one process


@contextmanager
def joined(device: str = "cpu") -> Iterator[Team]:
    """Join the process group that torchrun started, until the block ends; without torchrun, one process.

    With several processes on one machine, "cuda" is a GPU for each. A lost process is a `Lost` in others.
    """
    restarted = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"  # on this machine
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or "MASTER_ADDR" not in os.environ:
        yield Team(device=device, restarted=restarted)
        return
    device, backend = _own(device)
    try:
        store, *_ = next(rendezvous("env://", timeout=TIMEOUT))
        store = fresh_store(store, rank, size, TIMEOUT)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
        (restarts,) = Team(rank, size).sum(restarted)
    except RuntimeError as error:
        raise Lost(
            f"process {rank} of {size}: not all came up within {TIMEOUT.total_seconds():.0f} seconds "
            f"({_gist(error)}). Start them all, with the same --nnodes and --nproc-per-node."
        ) from None
    try:
        yield Team(rank, size, device, restarts > 0)
    except (Diverged, Interrupted) as error:
        if rank == 0:
            raise
        raise Ended(str(error)) from None  # every rank ends; rank 0 says why
    except RuntimeError as error:
        if not (isinstance(error, dist.DistError) or "gloo" in str(error)):
            raise
        raise Lost(
            f"process {rank} of {size}: another one was lost ({_gist(error)}). The run goes on from its last "
            "checkpoint with --resume, or by itself with torchrun --max-restarts."
        ) from None
    dist.destroy_process_group()


def _own(device: str) -> tuple[str, str]:
    """The device of this process, and the backend of its process group."""
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
