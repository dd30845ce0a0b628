"""What several commands share: the device, standard input line by line, pictures, and errors as one line."""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress, ProgressColumn
from typer import Argument, Option

from regard.cli.app import fail, os_error, remark, say, stderr
from regard.core.errors import UnknownNameError, WeightsError

if TYPE_CHECKING:
    from regard.data.text_lines import DataError

Run = Annotated[
    Path, Argument(metavar="DIR", help="The folder of a trained run, or hf:PATH: a model of transformers.")
]
Input = Annotated[
    str, Option("--text", "--image", metavar="TEXT", help="What the run reads: a text, or a picture's file.")
]
Device = Annotated[str, Option(help="auto, cpu, cuda or mps.")]
Threads = Annotated[int | None, Option(min=1, help="Threads of the processor; torch decides unless given.")]
Batch = Annotated[int | None, Option(min=1, metavar="N", help="At most N lines are computed at once.")]
LINES = 2000  # read, answered and written at once
EVERY = 30.0  # seconds between two lines about progress where there is no bar


def resolve_device(device: str) -> str:
    """The device to use: with "auto" an accelerator if there is one."""
    import torch

    if device == "auto":
        here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return "cpu" if here is None else here.type
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device not in there:
        fail(f"--device must be auto, cpu, cuda or mps; got {device!r}.")
    if not there[device]:
        fail(f"--device {device}: there is none here. Use --device auto.")
    return device


def open_run(run: Path, device: str, task: str | None = None, threads: int | None = None) -> Any:
    """The system in the folder of a run, on the device that was typed; `task` is what it must be of."""
    from regard.runs.folder import open_system

    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    return open_system(run, resolve_device(device), task)


@contextmanager
def exit_on_error(command: str) -> Iterator[None]:
    """Turn what can go wrong with a user's files and arguments into one line and an exit code."""
    try:
        yield
    except (UnknownNameError, ImportError, ValueError) as error:  # those of settings, runs and weights, too
        fail(error)
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads on: not an error worth a word
        raise typer.Exit(1) from None
    except (OSError, MemoryError) as error:
        fail(os_error(error))
    except KeyboardInterrupt:
        remark(f"{command}: stopped.")
        raise typer.Exit(130) from None


def answer_lines(
    answer: Callable[[list[str]], Iterator[str]],
    given: list[str] | None = None,
    read: Callable[[str], str] = lambda line: line,
) -> None:
    """Write what `answer` says to the lines of standard input, or to those given, some at a time, in order.

    It gets what `read` makes of each line; this is called once for each, in order.

    A line that cannot be read or answered is named on standard error and has an empty answer; the others are
    answered, and the exit code is 2.
    """
    wrong = done = 0

    def note(error: object) -> None:
        nonlocal wrong
        remark(error)
        wrong += 1

    where = "standard input, line" if given is None else "input"
    for lines in blocks(note) if given is None else [given]:
        block = [read(line) for line in lines]
        try:
            written = list(answer(block))
        except WeightsError:
            raise
        except ValueError as error:
            written = []
            for number, line in enumerate(block, done + 1):
                try:
                    written += answer([line])
                except ValueError as why:
                    if len(block) == 1:
                        raise ValueError(f"{where} {number}: {why}") from error
                    note(f"{where} {number}: {why}")
                    written.append("")
        write_lines(written)
        done += len(block)
    if wrong:
        what = "lines" if given is None else "inputs"
        fail(f"{wrong} of {done:,} {what} could not be answered; their answers are empty.")


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to standard output, for other programs."""
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def blocks(note: "Callable[[DataError], None] | None" = None) -> Iterator[list[str]]:
    """The lines of standard input, some at a time; `note` hears of bad ones, which are empty then."""
    from regard.data.text_lines import numbered_lines

    lines = (line for _, line in numbered_lines(sys.stdin.buffer, "standard input", note))
    while block := list(islice(lines, LINES)):
        yield block


@contextmanager
def progress_bar(
    doing: str, total: int | None = None, columns: tuple[ProgressColumn, ...] = ()
) -> Iterator[Callable[..., None]]:
    """A bar on standard error; what is yielded is called with the number done, and whatever else is new.

    Where standard error is no terminal it is a line now and then.
    """
    screen, said = stderr(), monotonic()
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(doing, total=total)

        def show(done: float | None = None, of: float | None = None, **news: Any) -> None:
            nonlocal said
            bar.update(task, completed=done, total=of, **news)
            if not screen.is_terminal and monotonic() - said >= EVERY:
                said, now = monotonic(), bar.tasks[0]
                counted = f"{now.completed:,.0f} of {now.total:,.0f}" if now.total else ""
                remark("; ".join(filter(None, [now.description, counted])))

        yield show


def check_picture(out: Path | None, page: bool = True) -> None:
    """Raise ValueError, before any work, if no such file can be written; page: HTML can."""
    from regard.views.picture import check_file

    if out is not None and check_file(out) == "html" and not page:
        raise ValueError(f"this picture is written as .png, .svg or .pdf, not as a page; got {out.name}.")


def check_folder(folder: Path) -> None:
    """End the command, before any work, if nothing can be written into a folder; make it if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        fail(f"{folder} cannot be written into: {error.strerror or error}.")


def save_picture(picture: Any, out: Path, quiet: bool = False) -> None:
    """Write a view or a figure, and unless quiet say where."""
    from regard.views import save

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            save(picture, out)
        except OSError as error:
            fail(f"{out} cannot be written: {error.strerror or error}.")
    if any("missing from font" in str(one.message) for one in said):
        remark(f"{out}: the fonts here lack some characters, drawn as boxes; .html has them all.")
    if not quiet:
        say(out)
