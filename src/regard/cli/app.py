"""The command `regard`: what its commands share. A command's file is imported when the command is called."""

import os
import sys
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

COMMANDS = {  # and the first sentence of its help, which `regard --help` shows without importing it
    "align": "Write the word alignment of sentences and their translations.",
    "answer": "Answer a question about a text with a run, and show where the answer comes from.",
    "arena": "Compare mechanisms of attention on long sequences: accuracy, time, memory, FLOPs.",
    "audit": "Say whether the attention of a run is evidence of what the run used, and how sure that is.",
    "bench": "Measure regard against torch and other packages.",
    "claims": "List what lectures claim, show what was measured, run it again.",
    "check": "Compare a model of transformers with itself: softmax through regard, and its own attention.",
    "classify": "Classify pictures, or the lines of standard input, with a run: a label for each.",
    "caption": "Write a sentence about each picture with a run.",
    "demo": "Train a small English–German translator; show what it says and where it looks.",
    "evaluate": "Say how good a run is, on examples that files have.",
    "explain": "Score the words of a text: how much each contributes to what a classifier predicts.",
    "generate": "Write on from a prompt with a language model, as it goes.",
    "heads": "Say what each head of an encoder does, and how many it can do without.",
    "maps": "Show one vector of scores through every map.",
    "probe": "Say how many bits the labels of words take, given the states of each layer.",
    "scores": "List the scores: what each does, and whether it has parameters.",
    "serve": "Serve a page that shows what runs answer, where they attend, what changes without a word.",
    "settings": "List every setting of a task with its meaning and default.",
    "swap": "Give a model of transformers another map, with a temperature for each head.",
    "train": "Train a model on your own files.",
    "translate": "Translate standard input with a run: a line for each line.",
    "view": "Draw the attention weights of a run while it answers a text.",
}


class OneLine(TyperGroup):
    """Commands whose errors are one line on standard error and exit code 2."""

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run a command; unless standalone_mode is off, the process ends here."""
        standalone = settings.get("standalone_mode", True)
        settings["standalone_mode"] = False
        if not standalone:
            return super().main(*args, **settings)
        try:
            _open_streams()
            _check_arguments(settings.get("args") or (args[0] if args else None) or sys.argv[1:])
            code = super().main(*args, **settings)
            sys.stdout.flush()
        except typer.Abort:
            sys.exit("regard: stopped.")
        except Exception as error:
            if isinstance(error, OSError | MemoryError):  # of output, mostly: a full disk
                _give_up(f"regard: {os_error(error)}")
            if not hasattr(error, "format_message"):
                raise
            where = getattr(getattr(error, "ctx", None), "command_path", "regard")
            what = " ".join(error.format_message().removeprefix("Invalid value: ").split())
            what += "" if what.endswith((".", "?", "!", "…")) else "."
            if what == ".":  # the help was shown
                sys.exit(2)
            _give_up(f"{where}: {what} See {where} --help.")
        sys.exit(code if isinstance(code, int) else 0)


def os_error(error: OSError | MemoryError, file: object = "standard output") -> str:
    """A sentence about an error of the system; `file` is what it is about, unless it says so itself."""
    if not isinstance(error, OSError):
        return "there is not enough memory."
    return f"{error.filename or file}: {error.strerror or error}."


def _open_streams() -> None:
    """Give standard streams that are closed a place of their own, so that no file gets their number."""
    closed = sys.stdout is None
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w"))  # noqa: SIM115
    if closed:
        fail("standard output is closed: there is no place for an answer.")


def _check_arguments(arguments: Iterable[str]) -> None:
    """Refuse bytes that are no UTF-8: neither the settings of a run nor an answer could hold them."""
    for one in arguments:
        try:
            one.encode()
        except UnicodeEncodeError:
            fail(f"arguments must be UTF-8; got {one!r}.")


def _give_up(line: str) -> NoReturn:
    """Print a line on standard error and end with exit code 2, whatever standard output has not taken."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(2)


class LazyGroup(OneLine):
    """Commands by name and sentence: help and completion import none, a call imports one."""

    says: Mapping[str, str]

    def make_command(self, name: str) -> Any:
        """The command of a name among `says`."""
        raise NotImplementedError

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of them; None if there is none of that name."""
        if cmd_name not in self.says:
            self._list()  # for "did you mean"
        elif cmd_name not in self.commands:
            self.commands[cmd_name] = self.make_command(cmd_name)
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            _show_flags_alone(found, ctx)
        return found

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        return list(self.says)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help, with names and sentences."""
        self._list()
        _show_flags_alone(self, ctx)
        super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Names, with their sentences, and options."""
        self._list()
        return super().shell_complete(ctx, incomplete)

    def _list(self) -> None:
        """Put a command without content in the place of each: what follows looks at name and help alone."""
        self.commands = {name: TyperCommand(name, help=says) for name, says in self.says.items()}


def _show_flags_alone(command: Any, ctx: Any) -> None:
    """Have the help say `--json`, not `--json <bool>`: nothing follows a flag."""
    for one in command.get_params(ctx):
        if getattr(one, "is_flag", False) and one.metavar is None:
            one.metavar = ""
    for one in getattr(command, "commands", {}).values():
        _show_flags_alone(one, ctx)


TAKEN = ("caption", "settings", "swap")  # names that other files have


class Commands(LazyGroup):
    """The commands; each is in a file of its name, or NAME_command.py where another file has that name."""

    says = COMMANDS

    def make_command(self, name: str) -> Any:
        """The command, from its file."""
        import_module(f"regard.cli.{name}_command" if name in TAKEN else f"regard.cli.{name}")
        return get_group(app).commands[name]


app = typer.Typer(
    cls=Commands,
    help="Neural attention you can swap, train, see and question.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def console(wide: int = 80) -> Console:
    """Where answers go; as wide as the terminal, or this wide where there is none."""
    return Console(highlight=False, width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else wide)


@cache
def stderr() -> Console:
    """Where progress and remarks go, so that answers can be piped; one console, so that bars make room."""
    return Console(stderr=True, highlight=False)


def say(line: object, screen: Console | None = None) -> None:
    """Print a line of an answer as it is: not wrapped, without markup."""
    (screen or console()).print(str(line), soft_wrap=True, markup=False)


def remark(line: object) -> None:
    """Print a line on standard error as it is."""
    say(line, stderr())


def plain_table(*headings: str, right: Collection[str] = (), **settings: Any) -> Table:
    """A table without lines, of texts without markup; columns with numbers stand to the `right`."""
    table = _PlainTable(
        box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0), title_justify="left"
    )
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", **settings)
    return table


def table_of(found: Any) -> Table:
    """The table of scores or of a reply: its first column is text, the others are numbers."""
    table = plain_table(*found.headings, right=found.headings[1:])
    for row in found.rows:
        table.add_row(*row)
    return table


class _PlainTable(Table):
    """A table whose cells and headings are shown as they are, `[bold]` and paths with brackets included."""

    def add_column(self, header: Any = "", *args: Any, **settings: Any) -> None:
        super().add_column(escape(header) if isinstance(header, str) else header, *args, **settings)

    def add_row(self, *cells: Any, **settings: Any) -> None:
        super().add_row(*(escape(cell) if isinstance(cell, str) else cell for cell in cells), **settings)


def fail(message: object) -> NoReturn:
    """End the command with one line about what is wrong, and exit code 2."""
    raise typer.BadParameter(str(message))


@app.callback(invoke_without_command=True)
def regard(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Show the version."),
) -> None:
    """Neural attention you can swap, train, see and question."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"regard {installed('regard')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
