"""The folder of a run: what is in it, and whether it may be begun, continued or used."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from regard.core.errors import RunError
from regard.core.files import write_text
from regard.core.settings import different, from_dict, read_toml, to_dict, toml
from regard.runs.resolve import resolved
from regard.runs.settings import Settings
from regard.training import Checkpoints

CONFIG, MODEL, README, LOG = "config.toml", "model.safetensors", "README.md", "log.jsonl"


def claim(
    folder: Path, settings: Any, *, resume: bool, resolve: Callable[[dict[str, Any]], Any] = resolved
) -> None:
    """Make a folder that of a run with these settings, or see that it is one already and may go on.

    `resolve` makes such settings of what config.toml has.
    """
    config = folder / CONFIG
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file; a run needs a folder.")
    if config.exists():
        if not resume:
            raise RunError(
                f"{folder} already holds a run. Continue it with --resume, or choose another --out."
            )
        before, now = _comparable(to_dict(resolve(read_toml(config)))), _comparable(to_dict(settings))
        if changed := different(before, now):
            was = ", ".join(f"{name} was {_at(before, name)!r}, now {_at(now, name)!r}" for name in changed)
            raise RunError(f"{folder} was begun with other settings ({was}). Resume it with its own.")
        return
    if folder.is_dir() and any(folder.iterdir()):
        raise RunError(
            f"{folder} holds something else than a run ({CONFIG} is missing). Choose another --out."
        )
    write_settings(folder, settings)


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


def read_settings(folder: Path) -> Settings:
    """The settings of the translator in a folder."""
    values = read_config(folder)
    if (task := values.get("task", "translation")) != "translation":
        raise RunError(f"{folder} holds a run of {task}; a translator is needed here.")
    return from_dict(Settings, values)


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
