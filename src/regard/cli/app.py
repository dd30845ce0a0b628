"""The command `regard`: what its commands share. A command's file is imported when the command is called."""

import os
import sys
from collections.abc import Collection
from functools import cache
from importlib import import_module
from importlib.metadata import version as installed
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup
from typer.main import get_group

COMMANDS = [
    "align", "audit", "bench", "classify", "demo", "evaluate", "explain", "heads", "maps", "probe", "scores",
    "serve", "train", "translate", "view",
]  # fmt: skip


class OneLine(TyperGroup):
    """Commands whose errors are one line on standard error and exit code 2."""

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run a command; unless standalone_mode is off, the process ends here."""
        standalone = settings.get("standalone_mode", True)
        settings["standalone_mode"] = False
        if not standalone:
            return super().main(*args, **settings)
        try:
            code = super().main(*args, **settings)
        except typer.Abort:
            sys.exit("regard: stopped.")
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise
            where = getattr(getattr(error, "ctx", None), "command_path", "regard")
            what = " ".join(error.format_message().removeprefix("Invalid value: ").split())
            print(f"{where}: {what} See {where} --help.", file=sys.stderr)
            sys.exit(2)
        sys.exit(code if isinstance(code, int) else 0)


class Commands(OneLine):
    """The commands; each is in a file of its name."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        return COMMANDS

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of them; None if there is none of that name."""
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            self._import([cmd_name])
        return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help lists all commands: they are imported at once, as each import builds them anew."""
        self._import(COMMANDS)
        super().format_help(ctx, formatter)

    def _import(self, names: list[str]) -> None:
        for name in names:
            import_module(f"regard.cli.{name}")
        self.commands = get_group(app).commands


app = typer.Typer(
    cls=Commands,
    help="Neural attention you can swap, train, see and question.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
    add_completion=False,
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
    """A table without lines; columns with numbers stand to the `right`."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0), title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", **settings)
    return table


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
        typer.echo(f"regard {installed('regard')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
