"""Algorithm: copy, repeat, recall, count, sort, learned from examples alone.

    loss = −Σ over the bits asked for of log p(bit)

Examples are generated (`data/corpora/algorithms.py`). What counts is whether the algorithm holds for longer
sequences than those trained on, so `regard evaluate` asks for twice the length unless told otherwise.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from regard.core.errors import SettingsError, UnknownNameError
from regard.core.settings import SettingsGroup, setting
from regard.data.batches import Batch
from regard.data.corpora.algorithms import ALGORITHMS, Algorithm
from regard.data.fields import Field, Row
from regard.data.splits import Part
from regard.models.algorithm import ALGORITHM_MODELS
from regard.tasks.task import Located, Say, Task, TaskData, TaskParts, TaskSettings
from regard.training import CosineTraining


@dataclass(frozen=True)
class AlgorithmData(TaskData):
    """Which algorithm, and how long its sequences are."""

    files = ()

    corpus: str = setting("copy", "The algorithm; copy unless given.", option="--corpus")
    bits: int = setting(8, "Bits of a vector.", option="--bits", least=1, below=10_001)
    shortest: int = setting(
        0,
        "Length of the shortest sequence; 0 = as suits the algorithm.",
        option="--shortest",
        least=0,
        below=100_001,
    )
    longest: int = setting(
        0,
        "Length of the longest sequence to train on; 0 = as suits the algorithm (copy: 10).",
        option="--longest",
        least=0,
        below=100_001,
    )
    sequences: int = setting(50_000, "Sequences to train on.", least=1)
    held_out: int = setting(500, "Sequences to validate on.", least=1)

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm of this name."""
        try:
            return ALGORITHMS[self.corpus](self.bits)
        except UnknownNameError as error:
            raise SettingsError(str(error)) from None


@dataclass(frozen=True)
class AlgorithmTraining(CosineTraining):
    """Settings of the loop; the defaults suit a Turing machine that learns to copy."""

    steps: int = 3000
    tokens: int = setting(8192, "Steps of all sequences of a batch, padding included.", least=1)
    examples: int = setting(16, "Sequences in a batch at most; 0 = any.", least=0)
    optimiser: Literal["adam", "adamw", "muon", "sgd"] = "adam"
    rate: float = 3e-3
    decay: float = 0.0
    warmup: int = 20
    clip: float = 10.0
    validate: int = 250
    save: int = 250


@dataclass(frozen=True)
class AlgorithmSettings(TaskSettings):
    data: AlgorithmData = setting(factory=AlgorithmData)
    task: Literal["algorithm"] = "algorithm"
    training: AlgorithmTraining = setting(factory=AlgorithmTraining)


@dataclass(frozen=True)
class AlgorithmEvaluation(SettingsGroup):
    """What `regard evaluate` asks of a machine."""

    group = "options"

    length: int | None = setting(
        None, "Of the sequences; twice the longest it was trained on unless given.", least=1
    )
    sequences: int = setting(500, "How many are drawn.", least=1)
    seed: int = setting(0, "The same seed draws the same sequences.", least=0)


class AlgorithmTask(Task):
    """From sequences to a machine that continues them."""

    name = "algorithm"
    makes, examples, unit = "machine", "sequences", "bits"
    Settings, Evaluation = AlgorithmSettings, AlgorithmEvaluation
    models, default_model = ALGORITHM_MODELS, "turing_machine"
    corpora = ALGORITHMS
    model_options: Mapping[str, str] = {}
    command_examples = (
        "regard train algorithm --out runs/copy",
        "regard train algorithm --model lstm --out runs/lstm",
        "regard train algorithm --corpus recall --set model.controller=lstm --steps 10000 --out runs/recall",
    )
    usage = (
        "regard evaluate DIR --length 20",
        'regard view DIR --text "01101001 11010010" --kind memory --out heads.html',
    )

    def read(self, settings: AlgorithmSettings, part: Part) -> Iterator[Located]:
        """Sequences of all lengths alike often, drawn anew for each part and seed."""
        data = settings.data
        algorithm = data.algorithm
        chance = np.random.default_rng([settings.seed, part == "valid"])
        for number in range(1, 1 + (data.sequences if part == "train" else data.held_out)):
            length = int(chance.integers(data.shortest, data.longest + 1))
            yield f"{data.corpus}, sequence {number}", algorithm.draw(chance, length)

    def parts(self, settings: AlgorithmSettings, say: Say) -> TaskParts:
        """None: nothing is made from the examples."""
        return TaskParts()

    def fields(self, settings: AlgorithmSettings, parts: Any) -> dict[str, Field]:
        """What is given and what is asked for, step by step."""
        algorithm = settings.data.algorithm
        return {
            "inputs": Field("<f4", (None, algorithm.inputs)),
            "targets": Field("|u1", (None, algorithm.outputs)),
            "scored": Field("|u1"),
        }

    def encode(self, settings: AlgorithmSettings, parts: Any, examples: Sequence[str]) -> list[Row | None]:
        posed = map(settings.data.algorithm.posed, examples)
        return [{"inputs": one.inputs, "targets": one.targets, "scored": one.scored} for one in posed]

    def sizes(self, settings: AlgorithmSettings, parts: Any) -> dict[str, Any]:
        algorithm = settings.data.algorithm
        return {"inputs": algorithm.inputs, "outputs": algorithm.outputs}

    def complete(self, settings: AlgorithmSettings) -> AlgorithmSettings:
        data = settings.data
        shortest, longest = data.algorithm.lengths
        longest = data.longest or max(longest, data.shortest)
        shortest = data.shortest or min(shortest, longest)
        if shortest > longest:
            raise SettingsError(f"data.longest must be at least data.shortest={shortest}; got {longest}.")
        return replace(settings, data=replace(data, shortest=shortest, longest=longest))

    def loss(self, settings: AlgorithmSettings, model: Any, batch: Batch) -> tuple[Tensor, int]:
        """The sum of −log p of the bits asked for, and how many they are."""
        logits, bits = asked(model, batch)
        return F.binary_cross_entropy_with_logits(logits, bits, reduction="sum"), bits.numel()

    def measure(self, model: Any, batch: Batch) -> tuple[dict[str, float], int]:
        """Loss, and how many bits are wrong."""
        logits, bits = asked(model, batch)
        loss = F.binary_cross_entropy_with_logits(logits, bits, reduction="sum").item()
        return {"loss": loss, "bit_error": int(((logits > 0) != (bits > 0.5)).sum())}, bits.numel()


def asked(model: Any, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits and bits (k, outputs) of the steps at which something is asked."""
    where = batch["scored"].bool()
    logits: Tensor = model(batch["inputs"])
    return logits[where], batch["targets"][where].to(logits)


ALGORITHM = AlgorithmTask()
