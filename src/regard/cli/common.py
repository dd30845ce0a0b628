"""What several commands share: the device, standard input line by line, and errors as one line."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress
from typer import Argument, Option

from regard.cli.app import fail, stderr
from regard.core.errors import RunError, SettingsError, UnknownNameError, WeightsError

Run = Annotated[Path, Argument(metavar="DIR", help="The folder of a trained run.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or mps.")]
LINES = 2000  # read, answered and written at once


def resolve_device(device: str) -> str:
    """The device to use: with "auto" an accelerator if there is one."""
    import torch

    if device == "auto":
        here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return "cpu" if here is None else here.type
    if device not in ("cpu", "cuda", "mps"):
        fail(f"--device must be auto, cpu, cuda or mps; got {device!r}.")
    if device == "cuda" and not torch.cuda.is_available():
        fail("--device cuda: there is none here. Use --device auto.")
    if device == "mps" and not torch.backends.mps.is_available():
        fail("--device mps: there is none here. Use --device auto.")
    return device


def require_single_process(command: str) -> None:
    """Stop if torchrun has started several processes of a command that is for one."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        fail(f"{command} runs in one process: start it without torchrun.")


@contextmanager
def exit_on_error(command: str) -> Iterator[None]:
    """Turn what can go wrong with a user's files and arguments into one line and an exit code."""
    try:
        yield
    except (RunError, SettingsError, WeightsError, UnknownNameError, ImportError, ValueError) as error:
        fail(error)
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads on: not an error worth a word
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        stderr().print(f"{command}: stopped.")
        raise typer.Exit(130) from None


def answer_lines(answer: Callable[[list[str]], Iterator[str]]) -> None:
    """Write what `answer` says to the lines of standard input, some at a time, in their order."""
    for block in blocks():
        for line in answer(block):
            sys.stdout.write(line + "\n")
        sys.stdout.flush()


def blocks() -> Iterator[list[str]]:
    """The lines of standard input, some at a time."""
    from regard.data.text import DataError

    block: list[str] = []
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            block.append(raw.decode("utf-8").rstrip("\r\n"))
        except UnicodeDecodeError as error:
            raise DataError(f"standard input, line {number}: not UTF-8 (byte {error.start + 1}).") from None
        if len(block) == LINES:
            yield block
            block = []
    if block:
        yield block


@contextmanager
def progress_bar(what: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """A bar on standard error; what is yielded is called with the number done, and the total if it is new."""
    screen = stderr()
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(what, total=total)

        def done(count: int, of: int | None = None) -> None:
            bar.update(task, completed=count, total=total if of is None else of)

        yield done
