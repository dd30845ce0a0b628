"""regard settings: every setting of a task, for config.toml, --config and --set."""

import dataclasses
import inspect
import json
import re
import typing
from typing import Any

from rich.text import Text as Line
from typer import Argument, Option

from regard.cli.app import app, console, plain_table
from regard.cli.common import exit_on_error
from regard.cli.task_options import setting_groups
from regard.core.settings import facts_of, fields_of, from_dict
from regard.tasks import TASKS

MEANINGS = {  # of settings that many models have
    "activation": "Of the feed-forward layers.",
    "cell": "The recurrent cell.",
    "blocks": "Residual blocks at each width.",
    "dropout": "Share of activations that are dropped in training.",
    "embedding": "Width of the word vectors.",
    "glimpse": "Whether the decoder attends to the input before it points.",
    "heads": "Heads of each attention.",
    "inner": "Width of the feed-forward layers.",
    "input_feeding": "The attentional state is an input of the next step.",
    "layers": "Layers.",
    "learn_alpha": "With the map entmax: every attention learns its α.",
    "locations": "Places of the memory.",
    "looks": "How many times the picture is looked at.",
    "patch": "Pixels of a side of a patch.",
    "reduction": "By how much the gates' hidden layer is narrower than their channels.",
    "score": "Any score of `regard scores`.",
    "state": "Width of the recurrent state.",
    "stride": "By how much the first convolution shrinks the picture.",
    "width": "Width of the hidden states.",
    "widths": "Channels, from block to block.",
    "word_dropout": "Share of words that are replaced by the unknown word in training.",
}


@app.command()
@exit_on_error("regard settings")
def settings(
    task: str = Argument(
        ..., metavar="TASK", help=f"{', '.join(TASKS)}.", autocompletion=lambda: list(TASKS)
    ),
    model: str | None = Option(None, help="Settings of this model; the task's usual one unless given."),
    as_json: bool = Option(False, "--json", help="A list of objects: setting, default, option, meaning."),
) -> None:
    """List every setting of a task with its meaning and default, and its option if it has one.

    A setting without an option is given as `--set GROUP.NAME=VALUE`, or in a TOML file as `--config FILE`.

    Examples:

    - `regard settings classification`

    - `regard settings translation --model luong --json`
    """
    rows = settings_of(TASKS[task], model)
    if as_json:
        print(json.dumps(rows, ensure_ascii=False, indent=1))
        return
    table = plain_table("setting", "default", "option", "meaning")
    for row in rows:
        default = "" if row["default"] is None else json.dumps(row["default"], ensure_ascii=False)
        table.add_row(*map(Line, (row["setting"], default, row["option"] or "", row["meaning"])))
    console(110).print(table)


def settings_of(task: Any, model: str | None = None) -> list[dict[str, Any]]:
    """Name, default, option and meaning of each setting of a task and of one of its models."""
    rows = []
    for group, kind in setting_groups(task).items():
        facts, own = facts_of(kind), _defaults(task.Settings).get(group)
        suits = task.suits(model or task.default_model) if group == "training" and task.models else {}
        for name, default in ((_defaults(kind) if own is None else vars(own)) | suits).items():
            if not dataclasses.is_dataclass(default) and (group or facts[name].get("option")):
                dotted = f"{group}.{name}" if group else name
                rows.append(_row(dotted, default, facts[name].get("option"), meaning(kind, name)))
    if task.models:
        rows.append(_row("model.name", task.default_model, "--model", f"{', '.join(task.models)}."))
        plain = from_dict(task.Settings, {"data": {"corpus": next(iter(task.corpora))}})
        kind, sizes = task.models[model or task.default_model].config, task.sizes(plain, None)
        for name, default in _defaults(kind).items():
            if name not in sizes:
                says = task.model_options.get(name)
                option = None if says is None else "--" + name.replace("_", "-")
                rows.append(_row(f"model.{name}", default, option, says or meaning(kind, name)))
    return rows


def meaning(kind: type[Any], name: str) -> str:
    """What a field is for: as `setting` was told, or the comment behind it; and its choices."""
    says = facts_of(kind)[name].get("says") or _comments(kind).get(name) or MEANINGS.get(name, "")
    hint = fields_of(kind)[name]
    choices = [str(one) for one in typing.get_args(hint) if typing.get_origin(hint) is typing.Literal]
    return " ".join(filter(None, [says, f"One of {', '.join(choices)}." if choices else ""]))


def _row(setting: str, default: Any, option: str | None, meaning: str) -> dict[str, Any]:
    return {"setting": setting, "default": default, "option": option, "meaning": meaning}


def _defaults(kind: type[Any]) -> dict[str, Any]:
    """The default of each field; None if it has none."""
    found = {}
    for field in dataclasses.fields(kind):
        made = field.default_factory
        value = field.default if made is dataclasses.MISSING else made()
        found[field.name] = None if value is dataclasses.MISSING else value
    return found


def _comments(kind: type[Any]) -> dict[str, str]:
    """What the source says of the fields of a model's Config: the comment behind each."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__[:-1]):
        for line in inspect.getsource(one).splitlines():
            if said := re.fullmatch(r"    (\w+): .*?  # (.+)", line):
                found[said[1]] = said[2][0].upper() + said[2][1:].rstrip(".") + "."
    return found
