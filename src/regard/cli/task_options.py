"""Options of commands that come from tasks: from the fields of their dataclasses, with their help.

`regard train NAME` is one command for each task, and has the options of its settings. `regard evaluate`,
`regard audit` and `regard answer` learn from the run which task it is of, so their further options,
`--name value`, are read when the run is known (`split`, `given`).
"""

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

from typer import Option
from typer.core import TyperCommand

from regard.cli.app import console, plain_table
from regard.cli.common import open_run
from regard.core.errors import SettingsError
from regard.core.settings import facts_of, fields_of, from_dict

Values = dict[str, Any]
# The dataclass of options that a task has for a command.
KINDS = {"evaluate": "Evaluation", "audit": "Audit", "answer": "Asking"}


def option(name: str) -> str:
    """The option of a setting: --gold-alignments of gold_alignments."""
    return "--" + name.replace("_", "-")


def setting_groups(task: Any) -> dict[str, type[Any]]:
    """The dataclass of each group of a task's settings; "" has those that are in no group."""
    groups = {"": task.Settings}
    for group, kind in fields_of(task.Settings).items():
        for one in (kind, *typing.get_args(kind)):
            if dataclasses.is_dataclass(one) and isinstance(one, type):
                groups[group] = one
    return groups


def parameter(
    name: str,
    kind: Any,
    says: str,
    flag: str | None = None,
    metavar: str | None = None,
    choices: Iterable[str] = (),
) -> Parameter:
    """A parameter that typer understands, of a setting of this type; None unless it is given."""
    known = list(choices)  # for completion in the shell

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in known if choice.startswith(incomplete)]

    kinds = [one for one in typing.get_args(kind) if one is not type(None)]
    plain = kinds[0] if isinstance(kind, types.UnionType) and kinds else kind
    default: Any = None
    if metavar == "FILE":
        annotation: Any = Path | None
    elif plain is bool:
        annotation, default = bool, False
    elif typing.get_origin(plain) is tuple:
        annotation = list[str] | None
    else:
        annotation = (plain if plain in (int, float) else str) | None
    shown = Option(
        flag or option(name), help=says, metavar=metavar, autocompletion=complete if known else None
    )
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, shown])


def split(arguments: Sequence[str]) -> tuple[list[str], Values]:
    """Folders, and options --name value or --name=value, by the names of settings; repeated ones as lists."""
    folders: list[str] = []
    values: Values = {}
    rest = iter(arguments)
    for word in rest:
        if not word.startswith("--"):
            folders.append(word)
            continue
        name, sign, value = word[2:].partition("=")
        if not sign:
            value = next(rest, "")
            if not value or value.startswith("--"):
                raise SettingsError(f"--{name} needs a value.")
        values.setdefault(name.replace("-", "_"), []).append(value)
    return folders, {name: found if len(found) > 1 else found[0] for name, found in values.items()}


def opened(arguments: Sequence[str], device: str) -> tuple[str, Any, Values]:
    """The one folder among arguments, the system in it, and the options."""
    folders, values = split(arguments)
    if len(folders) != 1:
        raise SettingsError(f"one folder of a run is needed; got {len(folders)}.")
    return folders[0], open_run(Path(folders[0]), device), values


def given(kind: type[Any], values: Mapping[str, Any], makes: str) -> Any:
    """The dataclass of options of a task; one that it does not have is refused."""
    known = fields_of(kind)
    for name in values:
        if name not in known:
            takes = ", ".join(option(one) for one in _shown(kind)) or "no such options"
            raise SettingsError(f"{option(name)} is not for a {makes}, which takes {takes}.")
    return from_dict(kind, {name: _typed(known[name], value) for name, value in values.items()}, "--")


def _typed(kind: Any, value: Any) -> Any:
    """The value of an option: a list if it can be repeated, else the last that was given."""
    every = value if isinstance(value, list) else [value]
    return every if typing.get_origin(kind) is tuple else every[-1]


def _shown(kind: type[Any]) -> dict[str, str]:
    """The fields of a dataclass that are options, and what they mean."""
    return {name: facts["says"] for name, facts in facts_of(kind).items() if facts.get("says")}


class ByTask(TyperCommand):
    """A command whose help also lists the options of each task."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help of the command, then the options by task."""
        from regard.tasks import TASKS

        super().format_help(ctx, formatter)
        screen = console()
        for task in map(TASKS.__getitem__, TASKS):
            kind = getattr(task, KINDS[str(self.name)])
            if kind is None:
                continue
            table = plain_table()
            table.add_column(f"Options for a {task.makes}", no_wrap=True)
            table.add_column("")
            for name, says in _shown(kind).items():
                table.add_row(option(name), says)
            screen.print(table)
            screen.print()
