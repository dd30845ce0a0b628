"""The same work in several processes at once, as torchrun would start them."""

import multiprocessing
import os
import socket
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch

from regard.training import joined, processes

SECONDS = 300  # after which a process counts as hanging

context = multiprocessing.get_context("forkserver")  # imports once what takes seconds, and has run nothing
context.set_forkserver_preload(
    [
        *("training.parity", "training.together", "regard.runs", "regard.tasks.translator", "numba"),
        *("torch._dynamo", "torch.distributed.fsdp", "torch.distributed.tensor"),
    ]
)


def together(size: int, work: Callable[..., Any], *arguments: Any, patience: float = SECONDS) -> list[Any]:
    """work(team, …) in each process: what it returned or raised; None for one that was killed.

    A process waits for the others for `patience` seconds.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pipes, started = [], []
    for rank in range(size):
        mine, theirs = context.Pipe()
        process = context.Process(target=_one, args=(rank, size, port, patience, theirs, work, arguments))
        process.start()
        theirs.close()
        pipes.append(mine)
        started.append(process)
    try:
        return [_answer(pipe) for pipe in pipes]
    finally:
        for process in started:
            process.kill()
            process.join()


def _answer(pipe: Connection) -> Any:
    assert pipe.poll(SECONDS), "it hangs"
    try:
        return pipe.recv()
    except EOFError:
        return None


def _one(
    rank: int, size: int, port: int, patience: float, pipe: Connection, work: Any, arguments: tuple[Any, ...]
) -> None:
    there = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ.update(there, RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank))
    torch.set_num_threads(1)
    processes.TIMEOUT = timedelta(seconds=patience)
    try:
        with joined() as team:
            found = work(team, *arguments)
    except BaseException as error:
        found = error
    pipe.send(found)
