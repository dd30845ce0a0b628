"""A trained run from its folder."""

from pathlib import Path
from typing import Any

from torch import nn

from regard.core.errors import RunError
from regard.core.weights import load_tensors
from regard.runs.folder import MODEL, read_config, task_of
from regard.tasks.system import System


def load(folder: str | Path, device: str = "cpu") -> Any:
    """The trained system in a folder, ready to use: a Translator, a Classifier, a WordAligner …"""
    return open_system(Path(folder), device)


def open_system(folder: Path, device: str = "cpu", task: str | None = None) -> System:
    """The same; `task` is what the folder must hold, for commands that are about one task."""
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
