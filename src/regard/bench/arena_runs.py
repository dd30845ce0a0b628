"""The arena: every mechanism on every task of long sequences, by accuracy, time, memory and FLOPs.

All have the same width, depth and number of steps (`bench/arena_training.py`). The number of steps is the
most that the slowest mechanism can do in the minutes that a row may take; with pretraining a third of the
time goes to denoising. A row that is done is written to the folder, with its model, and not done again; rows
that are added to it later get the same number of steps.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from regard.bench.arena_training import (
    ArenaSettings,
    StepCost,
    accuracy,
    grown,
    make_model,
    step_cost,
    train,
)
from regard.core.files import write_text
from regard.core.weights import save_tensors, tensors_of
from regard.data.long_range import LONG_TASKS, LongExample, LongTask
from regard.data.long_range.long_task import LongBatches, Splits
from regard.mechanisms import MECHANISMS
from regard.mechanisms.mechanism import parsed

STEPS = {"listops": 20_000, "bytes": 4_000, "retrieval": 4_000, "pixels": 6_000, "pathfinder": 6_000}
DEFAULTS = {
    "bigbird": "bigbird:block=16",
    "sinkhorn": "sinkhorn:block=32",
}  # texts of 20 tokens are among them
PRETRAINING = 1 / 3  # of the time
GROWN = 1.5  # steps with examples that grow, in the time of one with whole ones
AUDITED = 100  # texts of the test set

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """One mechanism on one task."""

    task: str
    mechanism: str
    pretrained: bool
    accuracy: float
    validation: float
    chance: float
    steps: int
    pretraining_steps: int
    seconds_per_step: float
    bytes: int
    flops: int
    parameters: int
    minutes: float  # that it took
    allowed: float  # minutes that it might have taken
    seed: int
    data: str = ""
    threads: int = 1
    fingerprint: str = ""  # of the file
    planned: tuple[int, int] = (0, 0)  # steps of denoising and of training, for all rows of a comparison
    audit: dict[str, Any] | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """Rows with the same key are the same experiment."""
        return self.mechanism, *self.comparison

    @property
    def comparison(self) -> tuple[Any, ...]:
        """Rows that are compared, and take as many steps."""
        return self.task, self.pretrained, self.allowed, self.seed, self.data, self.fingerprint

    def json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return asdict(self)


def spelled(mechanism: str) -> str:
    """A mechanism as it was asked for; some have other settings here where none are given."""
    parsed(mechanism)
    return DEFAULTS.get(mechanism, mechanism)


def read_rows(folder: Path) -> list[Row]:
    """The rows of a folder, none if there are none; a broken file is an error that names it."""
    file = folder / "rows.jsonl"
    if not file.exists():
        return []
    try:
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
        return [Row(**{**line, "planned": tuple(line["planned"])}) for line in lines]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file}: these are no rows of the arena ({error}).") from None


def write_rows(folder: Path, rows: Sequence[Row]) -> None:
    """Write them beside and rename: a stopped run leaves whole rows."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "rows.jsonl", "".join(json.dumps(row.json()) + "\n" for row in rows))


def run(
    tasks: Sequence[str],
    mechanisms: Sequence[str],
    minutes: float,
    folder: Path,
    *,
    pretrain: Sequence[bool] = (False,),
    files: dict[str, Path] | None = None,
    audit: bool = False,
    settings: ArenaSettings | None = None,
    most: Mapping[str, int] = STEPS,
    tell: Tell = lambda what: None,
) -> Iterator[Row]:
    """Every row, those that the folder has at once; others are trained, for at most `most` steps."""
    settings, files = settings or ArenaSettings(), files or {}
    for name in files:
        LONG_TASKS[name]
    chosen = [LONG_TASKS[name] for name in tasks]
    specs = [spelled(name) for name in mechanisms]
    sources = {task.name: task.splits(files.get(task.name), settings.seed, settings.held) for task in chosen}
    done = {row.key: row for row in read_rows(folder)}
    for task in chosen:
        splits, file = sources[task.name], files.get(task.name)
        data, mark = ("", "") if file is None else (str(file), fingerprint(file))
        keys = {
            (spec, first): (spec, task.name, first, minutes, settings.seed, data, mark)
            for first in pretrain
            for spec in specs
        }
        costs: dict[str, StepCost] = {}
        missing = [pair for pair, key in keys.items() if key not in done]
        if missing:
            for spec in specs:
                tell(f"{task.name}: the time of a step of {spec}")
                costs[spec] = step_cost(task, spec, splits, settings)
        for (spec, first), key in keys.items():
            if key in done and (not audit or done[key].audit is not None):
                yield done[key]
                continue
            slowest = max(cost.seconds for cost in costs.values()) if costs else math.nan
            if key in done:
                row = done[key]
            else:
                same = [row.planned for row in done.values() if row.comparison == key[1:]]
                planned = same[0] if same else _planned(task, first, minutes, slowest, most[task.name])
                row = _trained(
                    task, spec, first, minutes, splits, settings, costs[spec], planned, tell,
                    data=data, fingerprint=mark, folder=folder,
                )  # fmt: skip
            if audit:
                tell(f"{task.name}, {spec}: audit")
                row = replace(row, audit=audited(task, row, splits, settings, folder))
            done[key] = row
            write_rows(folder, list(done.values()))
            yield row


def _planned(task: LongTask, first: bool, minutes: float, slowest: float, most: int) -> tuple[int, int]:
    """The steps of denoising and of training that the slowest mechanism can do in the time."""
    limit, share = 60 * minutes, 1 - PRETRAINING if first else 1.0
    more = 1.0 if task.part is None else GROWN  # parts of examples take less time than whole ones
    before = max(1, min(most // 2, int((1 - share) * limit / slowest))) if first else 0
    return before, max(1, min(most, int(share * limit / slowest * more)))


def _trained(
    task: LongTask, spec: str, first: bool, minutes: float, splits: Splits, settings: ArenaSettings,
    cost: StepCost, planned: tuple[int, int], tell: Tell, *, data: str, fingerprint: str, folder: Path,
) -> Row:  # fmt: skip
    import torch

    limit, (before, steps) = 60 * minutes, planned
    model = make_model(task, spec, settings)
    batches = LongBatches(splits, settings.batch, settings.seed, simpler=partial(grown, task))
    taken, pretrained = 0.0, 0
    name = f"{task.name}, {spec}"
    if first:
        denoised = train(
            model, batches, before, settings, PRETRAINING * limit, denoise=True,
            tell=lambda step, loss: tell(f"{name}: denoising {step:,} of {before:,}, loss {loss:.3f}"),
        )  # fmt: skip
        taken, pretrained = denoised.seconds, denoised.steps
    found = train(
        model, batches, steps, settings, limit - taken,
        tell=lambda step, loss: tell(f"{name}: step {step:,} of {steps:,}, loss {loss:.3f}"),
    )  # fmt: skip
    row = Row(
        task.name,
        spec,
        first,
        accuracy(model, splits.test),
        accuracy(model, splits.validation),
        largest_class(splits.test) if data else task.chance,
        found.steps,
        pretrained,
        cost.seconds,
        cost.bytes,
        cost.flops,
        sum(p.numel() for p in model.parameters()),
        (taken + found.seconds) / 60,
        minutes,
        settings.seed,
        data,
        torch.get_num_threads(),
        fingerprint,
        planned,
    )
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(tensors_of(model), model_file(folder, row))
    return row


def model_file(folder: Path, row: Row) -> Path:
    """Where the model of a row is: a name of its own for each row of the folder."""
    name = row.mechanism.replace(":", "-").replace("=", "").replace("+", "-").replace(",", "-")
    parts = [
        row.task,
        name,
        *(["pretrained"] if row.pretrained else []),
        f"{row.allowed:g}min",
        str(row.seed),
    ]
    return folder / f"{'-'.join([*parts, *([row.fingerprint] if row.data else [])])}.safetensors"


def audited(
    task: LongTask, row: Row, splits: Splits, settings: ArenaSettings, folder: Path
) -> dict[str, Any]:
    """The grade and the answer of a quick audit of a row's model on test texts."""
    import torch

    from regard.audits import audit
    from regard.core.weights import load_tensors, put_tensors
    from regard.tasks.case import Case

    model = make_model(task, row.mechanism, settings)
    file = model_file(folder, row)
    if not file.is_file():
        raise ValueError(f"{file}: the model of this row is gone, so that it cannot be audited.")
    put_tensors(model, load_tensors(file), file)
    model.eval()
    some = splits.test[:AUDITED]
    seconds = [one.second for one in some] if task.pairs else None
    case = Case.from_model(model, [one.tokens for one in some], seconds)  # type: ignore[arg-type]
    report = audit(
        replace(case, labels=torch.tensor([one.label for one in some])),
        quick=True,
        name=f"{row.mechanism} on {task.name}",
    )
    tests = {name: finding.value for name, finding in report.tests.items()}
    return {"grade": report.grade, "answer": report.answer, "tests": tests}


def largest_class(examples: Sequence[LongExample]) -> float:
    """Its share of these: what one who always says the same is right in."""
    return max(Counter(one.label for one in examples).values()) / len(examples)


def fewer_steps(rows: Sequence[Row]) -> list[Row]:
    """Rows that have done less than was planned for all, as their time was over."""
    return [row for row in rows if (row.pretraining_steps, row.steps) != row.planned]


def fingerprint(file: Path) -> str:
    """A few digits that change with the file."""
    return sha256(file.read_bytes()).hexdigest()[:8]


def best(rows: Sequence[Row]) -> dict[str, str]:
    """The mechanism with the highest accuracy of each task."""
    found: dict[str, Row] = {}
    for row in rows:
        if row.task not in found or row.accuracy > found[row.task].accuracy:
            found[row.task] = row
    return {task: row.mechanism for task, row in found.items()}


def known_mechanisms() -> list[str]:
    """All, as the arena takes them unless some are named."""
    return list(MECHANISMS)
