"""Runs small enough for tests, one of each task."""

import os
from pathlib import Path

from typer.testing import CliRunner

from regard.cli import app
from regard.runs import fit, resolve

SETTINGS = {
    "seed": 3,
    "data": {"corpus": "copy", "pairs": 400, "held_out": 40, "tokens": "word", "vocabulary": 60},
    "model": {"name": "transformer", "width": 32, "inner": 32, "layers": 1, "heads": 2},
    "training": {
        "steps": 30,
        "tokens": 256,
        "warmup": 10,
        "rate": 0.003,
        "validate": 10,
        "save": 3,
        "report": 5,
    },
    "decoding": {"beam": 2},
}
CLASSIFIER = {
    "task": "classification",
    "seed": 3,
    "data": {"corpus": "sentiment", "texts": 300, "held_out": 60},
    "model": {"name": "attentive_mlp", "embedding": 16, "width": 16, "dropout": 0.1},
    "training": {
        "steps": 24,
        "tokens": 600,
        "warmup": 5,
        "rate": 0.02,
        "validate": 8,
        "save": 4,
        "report": 8,
    },
}
ALIGNER = {
    "task": "alignment",
    "data": {"corpus": "copy", "pairs": 60},
    "alignment": {"rounds": 2, "first_rounds": 2},
}
LANGUAGE = {
    "task": "language",
    "seed": 3,
    "data": {"corpus": "grammar", "sentences": 200},
    "model": {"name": "gpt", "width": 16, "inner": 16, "heads": 2, "layers": 1},
    "training": {
        "steps": 24,
        "tokens": 128,
        "segment": 16,
        "warmup": 5,
        "rate": 0.02,
        "validate": 8,
        "save": 4,
        "report": 8,
    },
}
EVERY = {"translation": SETTINGS, "classification": CLASSIFIER, "alignment": ALIGNER, "language": LANGUAGE}


def changed(values, **groups):
    """Settings with some changed; a group whose `name` is given, or that is new, is taken as it is given."""
    merged = dict(values)
    for name, group in groups.items():
        whole = not isinstance(group, dict) or "name" in group
        merged[name] = group if whole else {**values.get(name, {}), **group}
    return merged


def trained(task: str, folder: Path):
    """The tiny run of a task, in a folder of its name."""
    return fit(resolve(settings_of(task)), folder / task)


def settings_of(task: str):
    """The settings above, or those of the walk over tasks."""
    from contract.test_every_task import values

    return EVERY[task] if task in EVERY else values(task)


def forked(arguments: list[str], said: Path) -> int:
    """The id of a process that runs `regard` with these arguments: a copy of this one.

    What it prints on standard error is in a file when it ends.
    """
    process = os.fork()
    if process:
        return process
    try:
        done = CliRunner().invoke(app, arguments, prog_name="regard")
        known = done.exception is None or isinstance(done.exception, SystemExit)
        said.write_text(done.stderr if known else f"Traceback: {done.exception!r}", encoding="utf-8")
        os._exit(done.exit_code)
    finally:
        os._exit(99)


def options(folder: Path, *more: str, task: str = "translation") -> list[str]:
    """The settings of a task's tiny run as arguments of `regard train`."""
    given = ["train", task, "--out", str(folder), "--device", "cpu"]
    for group, settings in settings_of(task).items():
        if isinstance(settings, dict):
            for key, value in settings.items():
                given += ["--set", f"{group}.{key}={value}"]
        elif group != "task":
            given += ["--set", f"{group}={settings}"]
    return [*given, *more]
