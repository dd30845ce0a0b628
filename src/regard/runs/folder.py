"""The folder of a run: what is in it, whether it may be begun or continued, and the system that it holds."""

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torch import nn

from regard.core.bridges import BRIDGES, bridge_named, prefix_of
from regard.core.errors import RunError, SettingsError, UnknownNameError, WeightsError
from regard.core.files import DRAFT, check_regular, remove_drafts, write_text
from regard.core.settings import different, facts_of, read_toml, to_dict, toml
from regard.core.weights import load_tensors, shapes_of
from regard.data.text import DataError
from regard.data.text_lines import check_no_pipe
from regard.runs.lock import LOCK
from regard.tasks import OLD_NAMES, TASKS
from regard.tasks.system import System
from regard.tasks.task import Say, Task
from regard.training import Checkpoints, Progress, Training, rate_at

CONFIG, MODEL, README, LOG = "config.toml", "model.safetensors", "README.md", "log.jsonl"
CACHE, CHECKPOINTS = "cache", "checkpoints"  # of encoded examples; of training
MAY_CHANGE = ("training.steps", "training.patience")  # settings, when a run goes on
UNEXPECTED = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, OSError, MemoryError,
)  # fmt: skip  # what files of strangers can lead to


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
def claimed(
    folder: Path, settings: Any, facts: Mapping[str, Any], *, resume: bool, say: Say
) -> Iterator[None]:
    """Make a folder that of a run with these settings, or see that it is one already and may go on.

    This process must hold it (`locked`). `facts` are what a run writes down of itself. If the block fails in
    a folder that was begun here, what was put into it is removed again.
    """
    config = folder / CONFIG
    for place in (folder, folder / CACHE):
        remove_drafts(place)
    if config.exists():
        if check_resumable(folder, settings, facts, resume, say):
            kept = read_config(folder)
            write_settings(folder, settings, kept["data"].get("fingerprint"), run_facts(kept))
        yield
        return
    check_empty(folder)
    try:
        write_settings(folder, settings, None, facts)
        yield
    except BaseException:
        for path in folder.glob("*"):
            if path.name in (CONFIG, README, CACHE) or path.suffix in (".json", ".safetensors"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise


def check_empty(folder: Path) -> None:
    """RunError if a folder holds anything, unless it holds a run."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file; a run needs a folder.")
    if (folder / CONFIG).exists() or not folder.is_dir():
        return
    if any(path.name != LOCK and not path.name.endswith(DRAFT) for path in folder.iterdir()):
        raise RunError(
            f"{folder} holds something else than a run ({CONFIG} is missing). Choose another --out."
        )


def check_resumable(
    folder: Path, settings: Any, facts: Mapping[str, Any], resume: bool = True, say: Say = lambda _: None
) -> bool:
    """RunError unless the run in a folder may go on with these settings; True if for more steps."""
    if not resume:
        raise RunError(f"{folder} already holds a run. Continue it with --resume, or choose another --out.")
    values = read_config(folder)
    before, now = _comparable(to_dict(resolve(values))), _comparable(to_dict(settings))
    changed = different(before, now)
    if fixed := [name for name in changed if name not in MAY_CHANGE]:
        was = ", ".join(f"{name} was {_given(before, name)}, now {_given(now, name)}" for name in fixed)
        raise RunError(f"{folder} was begun with other settings ({was}). Resume it with its own.")
    begun = run_facts(values)
    for name, digest in begun.get("files", {}).items():
        if facts.get("files", {}).get(name, digest) != digest:
            raise RunError(
                f"the data of {folder} have changed since it was begun (data.{name}): it cannot go on with "
                "others. Train a new run, from its weights if you like: --init."
            )
    if facts.get("init_sha256") not in (None, begun.get("init_sha256")):
        raise RunError(f"{folder} was not begun with the weights of {facts['init']}. Leave --init out.")
    if changed:
        _say_longer(folder, settings.training, Checkpoints(folder / CHECKPOINTS).progress(), say)
    return bool(changed)


def _say_longer(folder: Path, training: Training, done: tuple[Progress, Progress] | None, say: Say) -> None:
    """Say how a run goes on whose number of steps, or whose patience, is another now."""
    step, since = (0, 0) if done is None else (done[0].step, done[1].since)
    if training.steps < step:
        raise RunError(f"{folder} has done {step:,} steps: --steps must be more; got {training.steps:,}.")
    if 0 < training.patience <= since:
        raise RunError(
            f"{folder} stopped at step {step:,}, after {since} validations without improvement. To train "
            "longer also give --set training.patience=0."
        )
    schedule = f"the schedule, {training.schedule}, does not depend on the number of steps"
    if training.schedule == "cosine":
        rate = rate_at(step + 1, training)
        schedule = f"the learning rate now follows the cosine of {training.steps:,} steps, from {rate:.2g} on"
    say(f"going on from step {step:,} to {training.steps:,}; {schedule}")


def write_settings(
    folder: Path, settings: Any, fingerprint: str | None = None, facts: Mapping[str, Any] | None = None
) -> None:
    """Write config.toml: the settings, what the data were encoded to, and facts of the run."""
    values = _comparable(to_dict(settings))  # those of another run may be given
    if fingerprint is not None:
        values["data"]["fingerprint"] = fingerprint
    write_text(folder / CONFIG, toml({**values, "run": dict(facts)} if facts else values))


def run_facts(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a run wrote down of itself in its config.toml: threads, processes, digests of files, init."""
    facts = values.get("run", {})
    kinds = {"threads": int, "processes": int, "files": dict, "init": str, "init_sha256": str}
    known = isinstance(facts, Mapping) and all(isinstance(facts.get(k, t()), t) for k, t in kinds.items())
    if not known or not all(isinstance(one, str) for one in facts.get("files", {}).values()):
        raise RunError("[run] in config.toml is damaged.")
    return dict(facts)


def file_digests(settings: Any) -> dict[str, str]:
    """SHA-256 of the files that the settings of the data name, by setting; of those that can be read.

    A pipe is refused: a run reads its files more than once.
    """
    found: dict[str, str] = {}
    for name, facts in facts_of(type(settings.data)).items():
        given = getattr(settings.data, name)
        paths = [given] if isinstance(given, str) else given if isinstance(given, tuple) else []
        if facts.get("metavar") not in ("FILE", "FILES") or not paths:
            continue
        digests = []
        with suppress(OSError):  # whoever reads it says so
            for path in paths:
                check_no_pipe(path)
                check_regular(path)
                with open(path, "rb") as file:
                    digests.append(hashlib.file_digest(file, "sha256").hexdigest())
            found[name] = " ".join(digests)
    return found


def read_config(folder: Path) -> dict[str, Any]:
    """What config.toml of the run in a folder has."""
    if not folder.is_dir():
        raise RunError(f"there is no folder {folder}.")
    if not (folder / CONFIG).exists():
        raise RunError(f"{folder} holds no run: {CONFIG} is missing.")
    return read_toml(folder / CONFIG)


def finished(folder: Path, settings: Any = None) -> bool:
    """Whether the run in a folder is trained to its end, by its own settings or by others."""
    if not (folder / MODEL).exists():
        return False
    done = Checkpoints(folder / CHECKPOINTS).progress()
    training = getattr(settings or resolve(read_config(folder)), "training", None)
    if done is None or training is None:
        return True
    now, longer = done
    ended = longer.step >= training.steps or 0 < training.patience <= longer.since
    return now.finished and ended


def _comparable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without what the run itself wrote."""
    data = {name: value for name, value in values["data"].items() if name != "fingerprint"}
    return {**values, "data": data}


def _given(values: Mapping[str, Any], name: str) -> str:
    """What a setting is, for messages."""
    for part in name.split("."):
        values = values.get(part, {}) if isinstance(values, Mapping) else {}
    return "not given" if values in ({}, (), []) else repr(values)


def load(folder: str | Path, device: str = "cpu") -> Any:
    """The trained system in a folder, ready to use: a Translator, a Classifier, a WordAligner …

    "hf:PATH" is a model of transformers: a folder, a .gguf file, or a name in its cache.
    """
    return open_system(Path(folder), device)


def open_system(folder: Path, device: str = "cpu", task: str | None = None) -> System:
    """The same; `task` is what the folder must hold, for commands that are about one task.

    What is wrong with the files of a run, whoever made them, is an error of one sentence (RunError,
    SettingsError, WeightsError, DataError).
    """
    if prefix := prefix_of(folder):
        named: System = bridge_named(prefix).load(Path(str(folder).partition(":")[2]), device)
        return named
    if not (folder / CONFIG).exists():
        for bridge in BRIDGES.values():
            if bridge.opens(folder):
                found: System = bridge.load(folder, device)
                return found
    try:
        return _opened(folder, device, task)
    except (RunError, SettingsError, WeightsError, DataError, UnknownNameError, ImportError):
        raise
    except UNEXPECTED as error:
        what = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise RunError(
            f"{folder} is damaged, or is no run of this version: {what[0].rstrip('.')}."
        ) from error


def _opened(folder: Path, device: str, task: str | None) -> System:
    values = read_config(folder)
    of = task_of(values)
    if task is not None and of.name != task:
        raise RunError(f"{folder} holds a {of.makes}: a run of {task} is needed here (regard train {task}).")
    weights = folder / MODEL
    if not weights.exists():
        of.resolve(values)
        raise RunError(f"{folder} is not trained to its end: {MODEL} is missing. Go on with --resume.")
    shapes, model = shapes_of(weights), values.get("model")
    layers = model.get("layers") if isinstance(model, Mapping) else None
    if isinstance(layers, int) and layers > len(shapes):  # even without weights so many take long to make
        raise WeightsError(f"{weights} has {len(shapes):,} tensors, too few for model.layers={layers:,}.")
    settings = of.resolve(values)
    parts = of.load_parts(folder)
    of.check_weights(settings, parts, shapes, weights)  # before anything of that size is made
    found = of.restore(settings, parts, load_tensors(weights), weights)
    if isinstance(found, nn.Module):
        for name, parameter in found.named_parameters():
            if not bool(parameter.isfinite().all()):
                raise WeightsError(f"{weights} holds numbers that are not finite, in {name}: it is damaged.")
        found = found.to(device)
    return of.system(found, parts, settings, folder)
