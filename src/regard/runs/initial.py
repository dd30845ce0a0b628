"""A run that begins with the weights of another: `regard train … --init RUN`.

Tensors are taken by name and shape, so the other run may be of another task: an encoder that both have. The
tokenizer comes with them, so that embeddings are those of the same tokens; settings of tokens and model that
are not given are those of the other run. An output layer over other labels begins anew.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.core.errors import RunError, SettingsError
from regard.core.settings import fields_of, fitted, to_dict
from regard.core.weights import digest, tensors_of
from regard.data.tokenizer import Tokenizer
from regard.runs.folder import open_system
from regard.tasks.system import System
from regard.tasks.task import Say, Task

TOKENS = ("tokens", "vocabulary", "joint")  # settings of data that belong to tokenizers


def opened(init: Path) -> System:
    """The run whose weights are taken."""
    found = open_system(init)
    if not isinstance(found.model, nn.Module):
        raise RunError(f"--init: {init} holds a {found.task.makes}, which has no weights to begin with.")
    return found


def initial_facts(init: Path) -> dict[str, str]:
    """Which run it is and which weights it has, for config.toml."""
    return {"init": str(init), "init_sha256": digest(tensors_of(opened(init).model))}


def inherited(values: Mapping[str, Any], task: Task, init: Path) -> dict[str, Any]:
    """Nested settings, those of tokens and model that are not given as in the other run."""
    if not task.models:
        raise RunError(f"a {task.makes} is not trained in steps: --init is not for it.")
    theirs = to_dict(opened(init).settings)
    given = {group: dict(values.get(group, {})) for group in ("data", "model")}
    known = fields_of(fields_of(task.Settings)["data"])
    tokens = {name: value for name, value in theirs["data"].items() if name in TOKENS and name in known}
    their_model = theirs.get("model", {})
    name = given["model"].get("name", their_model.get("name"))
    if name not in task.models:
        name = given["model"].get("name", task.default_model)
    config = fields_of(task.models[name].config)
    model = {key: value for key, value in their_model.items() if key in config and _fits(config[key], value)}
    return {
        **values,
        "data": {**tokens, **given["data"]},
        "model": {**model, **given["model"], "name": name},
    }


def _fits(kind: Any, value: Any) -> bool:
    """Whether a setting of another model can have this value in this one."""
    try:
        fitted(kind, value, "")
    except SettingsError:
        return False
    return True


def with_tokenizers_of(parts: Any, settings: Any, facts: Mapping[str, Any], say: Say) -> Any:
    """Parts with the tokenizers of the other run instead of their own; refused if the settings differ."""
    other, taken = opened(Path(facts["init"])), {}
    for field in fields(parts) if is_dataclass(parts) else ():
        if isinstance(getattr(parts, field.name), Tokenizer):
            theirs = getattr(other.parts, field.name, None)
            taken[field.name] = theirs if isinstance(theirs, Tokenizer) else other.tokenizer
    if not taken:
        return parts
    wanted, has = settings.data.tokens, next(iter(taken.values())).kind
    if wanted != has:
        raise SettingsError(
            f"data.tokens is {wanted!r}, and the tokenizer of {facts['init']}, which comes with its weights, "
            f"cuts into {has!r}: leave data.tokens out."
        )
    if getattr(settings.data, "joint", True) != (len({id(one) for one in taken.values()}) == 1):
        raise SettingsError(f"data.joint must be as in {facts['init']}, whose tokenizers are taken.")
    say(f"the tokenizer is that of {facts['init']}")
    return replace(parts, **taken)


def check_initial(task: Task, settings: Any, parts: Any, facts: Mapping[str, Any]) -> None:
    """RunError unless a model with these parts can begin with weights of the other run."""
    with torch.device("meta"):
        model = task.make_model(settings, task.sizes(settings, parts))
    _taken(task, settings, parts, opened(Path(facts["init"])), model, facts["init"])


def put_initial(
    task: Task, settings: Any, parts: Any, model: nn.Module, facts: Mapping[str, Any], say: Say
) -> None:
    """Put weights of the other run into a model, where names and shapes are the same, and say how many."""
    init = Path(facts["init"])
    other = opened(init)
    given = tensors_of(other.model)
    if digest(given) != facts["init_sha256"]:
        raise RunError(f"--init: the weights of {init} have changed since this run was begun with them.")
    state = model.state_dict()
    taken = _taken(task, settings, parts, other, model, facts["init"])
    parameters = {name: p.numel() for name, p in model.named_parameters()}
    with torch.no_grad():
        for name in taken:
            state[name].copy_(given[name])
    new = [name for name in parameters if name not in taken]
    share = sum(parameters.get(name, 0) for name in taken) / sum(parameters.values())
    text = f"{len(taken):,} tensors come from {init}, {share:.1%} of the parameters"
    if new:
        text += f"; new are {', '.join(new[:4])}{f' and {len(new) - 4} more' if len(new) > 4 else ''}"
    if left := len(given) - len(taken):
        text += f"; {left:,} of its tensors are left"
    say(text)


def _taken(task: Task, settings: Any, parts: Any, other: System, model: nn.Module, init: str) -> list[str]:
    """The tensors of the other run that a model takes, by name; RunError if no parameter is among them."""
    state, anew = model.state_dict(), _of_labels(task, settings, parts, other.parts)
    taken = [
        name
        for name, tensor in tensors_of(other.model).items()
        if name in state and state[name].shape == tensor.shape and name not in anew
    ]
    if not {name for name, _ in model.named_parameters()}.intersection(taken):
        raise RunError(f"--init: no tensor of {init} has the name and the shape of one of this model.")
    return taken


def _of_labels(task: Task, settings: Any, parts: Any, theirs: Any) -> set[str]:
    """The tensors whose shape depends on the number of labels, if the labels are not the same."""
    ours = getattr(parts, "classes", None)
    other = getattr(theirs, "classes", None)
    if ours is None or (other is not None and vars(ours) == vars(other)):
        return set()
    sizes = task.sizes(settings, parts)
    with torch.device("meta"):
        here, there = (
            task.make_model(settings, {**sizes, "classes": sizes["classes"] + more}).state_dict()
            for more in (0, 1)
        )
    return {name for name, tensor in here.items() if there[name].shape != tensor.shape}
