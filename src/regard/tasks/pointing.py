"""Pointing: the answer is a sequence of positions of the input.

    loss = −Σ_i log p(C_i | C_1 … C_{i−1}, points), the end included

Problems are generated (sorting, convex hull, Delaunay triangulation, travelling salesman) or read from files.
What the training answers never do (point twice, leave a point out) no answer does.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

from regard.core.errors import SettingsError
from regard.core.files import read_json, write_text
from regard.core.settings import file_setting, from_dict, setting
from regard.data.batches import Batch
from regard.data.corpora.geometry import POINTED
from regard.data.fields import Field, Row
from regard.data.points import PointSet, located_points
from regard.data.splits import Part, held_out
from regard.data.text import DataError
from regard.models.pointers import POINTERS
from regard.tasks.task import LARGEST, Located, Say, Task, TaskData, TaskSettings
from regard.tasks.text_data import located
from regard.training import CosineTraining

POINTS = "Points and positions: .jsonl with points and answer, or Vinyals et al.'s .txt; .gz too."
PARTS = "points.json"


@dataclass(frozen=True)
class PointingData(TaskData):
    """Where the problems come from."""

    corpus: str | None = setting(
        None, "Generated problems; convex_hull, where there is no file.", option="--corpus"
    )
    problems: int = setting(200_000, "Generated problems.", least=1)
    shortest: int = setting(5, "Points of a generated problem, at least.", option="--shortest", least=1)
    longest: int = setting(
        12, "Points of a problem, at most; files' longer ones are left out.", option="--longest", least=1
    )
    train: str | None = file_setting(POINTS, "--data")
    valid: str | None = file_setting("Others to validate on; without them some are held out.", "--valid")
    held_out: int = setting(1000, "Problems to validate on, where no file is given.", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.train is None and self.shortest > self.longest:
            raise SettingsError(f"data.shortest={self.shortest} must be at most data.longest={self.longest}.")

    @property
    def kind(self) -> str | None:
        """The kind of generated problems; None of a file."""
        return None if self.train is not None else self.corpus or "convex_hull"


@dataclass(frozen=True)
class PointingTraining(CosineTraining):
    """Settings of the loop."""

    steps: int = 3000
    examples: int = 256
    rate: float = 1.5e-3
    warmup: int = 200


@dataclass(frozen=True)
class PointingSettings(TaskSettings):
    data: PointingData = setting(factory=PointingData)
    task: Literal["pointing"] = "pointing"
    training: PointingTraining = setting(factory=PointingTraining)


@dataclass(frozen=True)
class PointingEvaluation:
    """What `regard evaluate` asks of a model that points."""

    data: str | None = file_setting(POINTS)
    corpus: str | None = setting(None, "Generated problems; as in training unless given.", metavar="NAME")
    length: int | None = setting(None, "Points of each generated problem.", metavar="N")
    problems: int = setting(1000, "Generated problems.", metavar="N", least=1)
    seed: int = setting(0, "Of the generated problems.", metavar="N", least=0)


@dataclass(frozen=True)
class PointingAsking:
    """What `regard answer` asks of a model that points."""

    points: str | None = setting(
        None, 'Points: "0.1,0.7 0.3,0.2 …", or numbers: "0.4 0.1 …".', metavar="TEXT"
    )


@dataclass(frozen=True)
class PointingParts:
    """What is known of the problems: coordinates, their mean and scale, and what answers never do."""

    coordinates: int
    once: bool  # no answer points twice
    every: bool  # all answers point at every point
    most: int  # the largest number of points
    mean: tuple[float, ...]
    scale: float

    def save(self, folder: Path) -> None:
        """Write points.json."""
        write_text(folder / PARTS, json.dumps(vars(self), indent=1))

    @classmethod
    def load(cls, folder: Path) -> "PointingParts":
        """Those in a folder."""
        try:
            found = from_dict(cls, read_json(folder / PARTS))
            known = len(found.mean) == found.coordinates and np.isfinite(found.mean).all()
            if not known or not 0 < found.scale < np.inf or not 1 <= found.most < LARGEST:
                raise ValueError
            return found
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            raise DataError(f"{folder / PARTS}: not what a run of pointing has written.") from None

    def scaled(self, points: Sequence[Sequence[float]]) -> Any:
        """Points with mean 0 and spread 1 in the training problems: (n, coordinates)."""
        return (np.asarray(points, dtype=np.float64) - self.mean) / self.scale


class PointingTask(Task):
    """From problems to a model that points."""

    name = "pointing"
    makes, examples, unit = "pointer", "problems", "problems"
    Settings, Evaluation, Asking = PointingSettings, PointingEvaluation, PointingAsking
    models, default_model = POINTERS, "pointer_network"
    corpora, Parts = POINTED, PointingParts
    model_options: Mapping[str, str] = {
        "map": "Any differentiable row map of `regard maps`.",
        "encoder": "With pointer_network: set (self-attention without positions) or lstm, the paper's.",
    }
    command_examples = (
        "regard train pointing --out runs/hull",
        "regard train pointing --corpus sorting --out runs/sort",
        "regard train pointing --corpus salesman --longest 9 --out runs/tours",
        "regard train pointing --data hulls.txt.gz --model attentive_seq2seq --out runs/control",
    )
    usage = (
        "regard evaluate DIR --length 20 --json",
        'regard answer DIR --points "0.1,0.7 0.3,0.2 0.9,0.4 0.5,0.4"',
    )

    def read(self, settings: PointingSettings, part: Part) -> Iterator[Located]:
        """Points and positions."""
        data = settings.data
        if data.kind is not None:
            problem = POINTED[data.kind]
            if not problem.least <= data.shortest or not data.longest <= problem.largest:
                raise SettingsError(
                    f"problems of {data.kind} have {problem.least} to {problem.largest:,} points: "
                    f"data.shortest={data.shortest}, data.longest={data.longest} do not fit."
                )
            made = problem(settings.seed, part, data.shortest, data.longest)
            count = data.problems if part == "train" else data.held_out
            return located(data.kind, islice(made, count), "problem")
        assert data.train is not None
        if data.valid is not None:
            return located_points(data.train if part == "train" else data.valid)
        file = data.train
        return held_out(lambda: located_points(file), [file], part, data.held_out, "problems")

    def parts(self, settings: PointingSettings, say: Say) -> PointingParts:
        """What is known of the training problems."""
        once, every, most, coordinates, count = True, True, 1, 0, 0
        total, squares = 0.0, 0.0
        for where, one in self.read(settings, "train"):
            coordinates = coordinates or one.coordinates
            if one.coordinates != coordinates:
                raise DataError(
                    f"{where}: points of {one.coordinates} numbers among others of {coordinates}."
                )
            if len(one.points) > settings.data.longest:
                continue
            once, every = (
                once and len(set(one.answer)) == len(one.answer),
                every and len(set(one.answer)) == len(one.points),
            )
            most = max(most, len(one.points))
            points = np.asarray(one.points, dtype=np.float64)
            total, squares = total + points.sum(0), squares + (points**2).sum(0)
            count += len(points)
        mean = np.asarray(total) / max(count, 1)
        spread = float(np.sqrt(np.maximum(np.asarray(squares) / max(count, 1) - mean**2, 0).mean()))
        say("no answer points twice" if once else "answers may point at a point again")
        mean = np.broadcast_to(mean, (max(coordinates, 1),))
        return PointingParts(coordinates, once, every, most, tuple(mean.tolist()), spread or 1.0)

    def fields(self, settings: PointingSettings, parts: PointingParts) -> dict[str, Field]:
        """The points, and the positions, 1 for the first."""
        return {"points": Field("<f4", (None, parts.coordinates)), "answer": Field("<u2")}

    def encode(
        self, settings: PointingSettings, parts: PointingParts, examples: Sequence[PointSet]
    ) -> list[Row | None]:
        return [
            {"points": parts.scaled(one.points), "answer": [i + 1 for i in one.answer]} for one in examples
        ]

    def longest(self, settings: PointingSettings) -> dict[str, int]:
        return {} if settings.data.kind else {"points": settings.data.longest}

    def sizes(self, settings: PointingSettings, parts: PointingParts | None) -> dict[str, Any]:
        names = ("coordinates", "once", "every", "most")
        return {
            name: getattr(parts or PointingParts(2, True, False, 12, (0.0, 0.0), 1.0), name) for name in names
        }

    def complete(self, settings: PointingSettings) -> PointingSettings:
        kind = settings.data.kind
        return replace(settings, data=replace(settings.data, corpus=kind)) if kind else settings

    def check(self, settings: PointingSettings, model: nn.Module) -> None:
        if settings.data.kind is not None:
            POINTED[settings.data.kind]  # raises if there is no such problem, and names those that are known

    def loss(self, settings: PointingSettings, model: Any, batch: Batch) -> tuple[Tensor, int]:
        """The sum of the losses of a batch, and the number of its problems."""
        return model.loss(*problem_of(batch)), len(batch)

    def measure(self, model: Any, batch: Batch) -> tuple[dict[str, float], int]:
        """Loss, and how many answers are right as a whole."""
        points, lengths, answers, counts = problem_of(batch)
        said, _ = model(points, lengths)
        k = max(said.shape[1], answers.shape[1])
        said, wanted = (nn.functional.pad(one, (0, k - one.shape[1])) for one in (said, answers))
        right = int((said == wanted).all(-1).sum())
        return {"loss": model.loss(points, lengths, answers, counts).item(), "accuracy": right}, len(batch)


def problem_of(batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Points, their number, answers, and how long these are."""
    return batch["points"], batch.lengths["points"], batch["answer"], batch.lengths["answer"]


POINTING = PointingTask()
