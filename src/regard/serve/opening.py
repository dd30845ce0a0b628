"""The runs in some folders, ready to be asked."""

from collections.abc import Sequence
from pathlib import Path

from regard.core.errors import RunError
from regard.runs import load
from regard.runs.fit_classifier import is_classifier, load_classifier
from regard.runs.folder import read_config, read_settings
from regard.runs.resolve_classifier import resolved_classifier
from regard.serve.classifier_run import ClassifierRun
from regard.serve.deadline import watch
from regard.serve.run import Run


def open_runs(folders: Sequence[Path], device: str = "cpu") -> dict[str, Run | ClassifierRun]:
    """The runs in these folders by name: that of the folder, or where two are alike their whole path."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise RunError("a run can be given once; got the same folder twice.")
    last = [folder.resolve().name for folder in folders]
    found = {}
    for folder, name in zip(folders, last, strict=True):
        name = str(folder) if last.count(name) > 1 else name
        found[name] = _opened(folder, name, device)
        watch(found[name].system.model)
    return found


def _opened(folder: Path, name: str, device: str) -> Run | ClassifierRun:
    if folder.is_dir() and is_classifier(folder):
        settings = resolved_classifier(read_config(folder))
        return ClassifierRun(name, load_classifier(folder, device), settings, folder)
    return Run(name, load(folder, device), read_settings(folder), folder)
