"""Checkpoints: all that is needed to go on as if nothing had happened.

A checkpoint is a folder named by its step: weights and the optimiser's memory as safetensors, the rest as
JSON with the digest of the other two. It is written beside its place and renamed into it; one that is damaged
later is passed over, and the one before it is used.
"""

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import WeightsError
from regard.core.files import beside
from regard.core.weights import load_tensors, save_tensors

MODEL, MEMORY, STATE = "model.safetensors", "optimiser.safetensors", "state.json"


@dataclass(frozen=True)
class Checkpoint:
    """What was saved after a step."""

    step: int
    model: dict[str, Tensor]
    memory: dict[str, Tensor]  # of the optimiser
    state: dict[str, Any]


class Checkpoints:
    """The checkpoints in a folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.damaged: list[str] = []  # what was passed over, and why

    def steps(self) -> list[int]:
        """The steps there are checkpoints of, in order, whole or not."""
        return sorted(int(f.name) for f in self.folder.glob("[0-9]*") if f.is_dir() and f.name.isdigit())

    def save(self, found: Checkpoint) -> None:
        """Write a checkpoint, whole or not at all."""
        with beside(self._path(found.step)) as draft:
            draft.mkdir()
            save_tensors(found.model, draft / MODEL)
            save_tensors(found.memory, draft / MEMORY)
            digests = {name: _digest(draft / name) for name in (MODEL, MEMORY)}
            text = json.dumps({"step": found.step, "digests": digests, **found.state}, indent=1)
            (draft / STATE).write_text(text, encoding="utf-8")

    def load(self, step: int) -> Checkpoint:
        """The checkpoint of a step; WeightsError if it is damaged."""
        path = self._path(step)
        try:
            state = json.loads((path / STATE).read_text(encoding="utf-8"))
            for name, digest in state.pop("digests").items():
                if _digest(path / name) != digest:
                    raise WeightsError(f"{path / name} is damaged.")
        except (OSError, ValueError, KeyError) as error:
            raise WeightsError(f"the checkpoint {path} is damaged: {error}") from None
        return Checkpoint(step, load_tensors(path / MODEL), load_tensors(path / MEMORY), state)

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
        for draft in self.folder.glob(".*"):
            shutil.rmtree(draft, ignore_errors=True)

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


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
