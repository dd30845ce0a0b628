"""The folder of a run: what is in it, whether it may be begun or continued, and the system that it holds."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from regard.core.bridges import BRIDGES
from regard.core.errors import RunError
from regard.core.files import write_text
from regard.core.settings import different, read_toml, to_dict, toml
from regard.core.weights import load_tensors
from regard.tasks import OLD_NAMES, TASKS
from regard.tasks.system import System
from regard.tasks.task import Task
from regard.training import Checkpoints

CONFIG, MODEL, README, LOG = "config.toml", "model.safetensors", "README.md", "log.jsonl"
CACHE = "cache"  # of encoded examples


def task_of(values: Mapping[str, Any]) -> Task:
    """The task that nested settings name; translation if they name none."""
    name = str(values.get("task", "translation"))
    if OLD_NAMES.get(name, name) not in TASKS:
        raise RunError(f"no task {name!r}; known are {', '.join(TASKS)}.")
    return TASKS[name]


def resolve(values: Mapping[str, Any]) -> Any:
    """The settings of a run from nested mappings, checked and filled in by their task."""
    return task_of(values).resolve(values)


@contextmanager
def claimed(folder: Path, settings: Any, *, resume: bool) -> Iterator[None]:
    """Make a folder that of a run with these settings, or see that it is one already and may go on.

    If the block fails in a folder that was begun here, what was put into it is removed again.
    """
    config = folder / CONFIG
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file; a run needs a folder.")
    if config.exists():
        _may_go_on(folder, settings, resume)
        yield
        return
    there = folder.is_dir()
    if there and any(folder.iterdir()):
        raise RunError(
            f"{folder} holds something else than a run ({CONFIG} is missing). Choose another --out."
        )
    try:
        write_text(config, toml(_comparable(to_dict(settings))))  # a config.toml of another run may be given
        yield
    except BaseException:
        for path in folder.iterdir() if folder.is_dir() else ():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if not there and folder.is_dir():
            folder.rmdir()
        raise


def _may_go_on(folder: Path, settings: Any, resume: bool) -> None:
    if not resume:
        raise RunError(f"{folder} already holds a run. Continue it with --resume, or choose another --out.")
    before, now = _comparable(to_dict(resolve(read_toml(folder / CONFIG)))), _comparable(to_dict(settings))
    if changed := different(before, now):
        was = ", ".join(f"{name} was {_at(before, name)!r}, now {_at(now, name)!r}" for name in changed)
        raise RunError(f"{folder} was begun with other settings ({was}). Resume it with its own.")


def write_settings(folder: Path, settings: Any) -> None:
    """Write config.toml."""
    write_text(folder / CONFIG, toml(to_dict(settings)))


def read_config(folder: Path) -> dict[str, Any]:
    """What config.toml of the run in a folder has."""
    if not folder.is_dir():
        raise RunError(f"there is no folder {folder}.")
    if not (folder / CONFIG).exists():
        raise RunError(f"{folder} holds no run: {CONFIG} is missing.")
    return read_toml(folder / CONFIG)


def finished(folder: Path) -> bool:
    """Whether the run in a folder is trained to its end."""
    if not (folder / MODEL).exists():
        return False
    newest = Checkpoints(folder / "checkpoints").newest()
    return newest is None or bool(newest.state["progress"]["finished"])


def _comparable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without what the run itself wrote."""
    data = {name: value for name, value in values["data"].items() if name != "fingerprint"}
    return {**values, "data": data}


def _at(values: Mapping[str, Any], name: str) -> Any:
    for part in name.split("."):
        values = values.get(part, {}) if isinstance(values, Mapping) else {}
    return values if values != {} else None


def load(folder: str | Path, device: str = "cpu") -> Any:
    """The trained system in a folder, ready to use: a Translator, a Classifier, a WordAligner …"""
    return open_system(Path(folder), device)


def open_system(folder: Path, device: str = "cpu", task: str | None = None) -> System:
    """The same; `task` is what the folder must hold, for commands that are about one task."""
    if not (folder / CONFIG).exists():
        for bridge in BRIDGES.values():
            if bridge.opens(folder):
                found: System = bridge.load(folder, device)
                return found
    values = read_config(folder)
    of = task_of(values)
    if task is not None and of.name != task:
        raise RunError(f"{folder} holds a {of.makes}: a run of {task} is needed here (regard train {task}).")
    settings = of.resolve(values)
    if not (folder / MODEL).exists():
        raise RunError(f"{folder} is not trained to its end: {MODEL} is missing. Go on with --resume.")
    parts = of.load_parts(folder)
    model = of.restore(settings, parts, load_tensors(folder / MODEL), folder / MODEL)
    return of.system(model.to(device) if isinstance(model, nn.Module) else model, parts, settings, folder)
