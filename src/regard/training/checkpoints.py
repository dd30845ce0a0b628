"""Checkpoints: all that is needed to go on as if nothing had happened.

A checkpoint is a folder named by its step: weights and the optimiser's memory as safetensors, the rest as
JSON, each with its digest. It is written beside its place and renamed into it; one that is damaged later is
passed over, and the one before it is used.
"""

import hashlib
import json
import re
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import WeightsError
from regard.core.files import beside, read_json, remove_drafts, write_text
from regard.core.settings import from_dict
from regard.core.weights import load_tensors, save_tensors
from regard.training.progress import Progress

MODEL, MEMORY, STATE = "model.safetensors", "optimiser.safetensors", "state.json"
CARRIED = "carried.safetensors"  # only where a model carries something


@dataclass(frozen=True)
class Checkpoint:
    """What was saved after a step."""

    model: dict[str, Tensor]
    memory: dict[str, Tensor]  # of the optimiser
    progress: Progress
    # As a run of more steps has it here, which has not validated at the end of this one. None: an earlier
    # version wrote the checkpoint, with the chosen weights in place of the last if the run was finished.
    longer: Progress | None
    carried: dict[str, Tensor] = field(default_factory=dict)  # from batch to batch, (processes, …) each

    @property
    def step(self) -> int:
        """The step after which it was saved."""
        return self.progress.step


class Checkpoints:
    """The checkpoints in a folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.damaged: list[str] = []  # what was passed over, and why

    def steps(self) -> list[int]:
        """The steps there are checkpoints of, in order, whole or not."""
        there = [file.name for file in self.folder.glob("[0-9]*") if file.is_dir()]
        return sorted(int(name) for name in there if re.fullmatch(r"[0-9]{8,15}", name))

    def save(self, found: Checkpoint) -> None:
        """Write a checkpoint, whole or not at all."""
        with beside(self._path(found.step)) as draft:
            draft.mkdir()
            save_tensors(found.model, draft / MODEL)
            save_tensors(found.memory, draft / MEMORY)
            if found.carried:
                save_tensors(found.carried, draft / CARRIED)
            (draft / STATE).write_text(_state(found.progress, found.longer), encoding="utf-8")

    def update(self, progress: Progress, longer: Progress | None) -> None:
        """Write the progress of a checkpoint anew; its weights stay."""
        write_text(self._path(progress.step) / STATE, _state(progress, longer))

    def load(self, step: int) -> Checkpoint:
        """The checkpoint of a step; WeightsError if it is damaged."""
        path = self._path(step)
        try:
            progress, longer, digests = self._states(step)
            for name, known in digests.items():
                if hashlib.sha256((path / name).read_bytes()).hexdigest() != known:
                    raise ValueError(f"{name} is not as it was written")
            carried = load_tensors(path / CARRIED) if (path / CARRIED).exists() else {}
            model, memory = load_tensors(path / MODEL), load_tensors(path / MEMORY)
            return Checkpoint(model, memory, progress, longer, carried)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise WeightsError(f"the checkpoint {path} is damaged: {str(error).rstrip('.')}.") from None

    def progress(self) -> tuple[Progress, Progress] | None:
        """That of the last checkpoint, and as a run of more steps has it; without reading its weights."""
        for step in reversed(self.steps()):
            with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
                now, longer, _ = self._states(step)
                return now, longer or replace(now, finished=False)
        return None

    def _states(self, step: int) -> tuple[Progress, Progress | None, dict[str, str]]:
        state = read_json(self._path(step) / STATE)
        if "digest" in state and state.pop("digest") != _digest(state):
            raise ValueError(f"{STATE} is not as it was written")
        progress = from_dict(Progress, state["progress"])
        if progress.step != step:
            raise ValueError(f"{STATE} is that of step {progress.step}")
        longer = from_dict(Progress, state["longer"]) if "longer" in state else None
        return progress, longer, state.get("digests", {})  # of files, in those of an earlier version

    def newest(self) -> Checkpoint | None:
        """The last whole checkpoint; None if there is none."""
        for step in reversed(self.steps()):
            try:
                return self.load(step)
            except WeightsError as error:
                self.damaged.append(str(error))
        return None

    def tidy(self, keep: set[int]) -> None:
        """Remove all checkpoints but those of these steps, and what an interrupted save left."""
        for step in self.steps():
            if step not in keep:
                shutil.rmtree(self._path(step), ignore_errors=True)
        remove_drafts(self.folder)

    def _path(self, step: int) -> Path:
        return self.folder / f"{step:08d}"


def average(models: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of weights by name; what is not floating point is taken from the last."""
    means = {}
    for name, last in models[-1].items():
        if last.is_floating_point():
            total = torch.stack([model[name].double() for model in models]).mean(0)
            means[name] = total.to(last.dtype)
        else:
            means[name] = last
    return means


def _state(progress: Progress, longer: Progress | None) -> str:
    """The progress as JSON, with its digest."""
    state = {"step": progress.step, "progress": asdict(progress), "longer": asdict(longer or progress)}
    return json.dumps({**state, "digest": _digest(state)}, indent=1)


def _digest(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
