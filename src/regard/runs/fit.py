"""From settings to a trained run: parts, encoded examples, model, training, scores, and a page about it."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.errors import RunError
from regard.core.files import beside, write_text
from regard.core.weights import load_tensors, save_tensors
from regard.data.batches import Batch, Batches
from regard.data.encoded import BLOCK, Encoded, OldFormatError
from regard.data.fields import Row
from regard.data.splits import Part
from regard.data.text import DataError
from regard.runs.folder import (
    CACHE,
    CHECKPOINTS,
    CONFIG,
    MODEL,
    README,
    check_empty,
    claimed,
    file_digests,
    read_config,
    run_facts,
    write_settings,
)
from regard.runs.initial import check_initial, initial_facts, put_initial, with_tokenizers_of
from regard.runs.lock import locked
from regard.runs.readme import readme
from regard.tasks import TASKS
from regard.tasks.system import Scores, System
from regard.tasks.task import Say, Task
from regard.training import ALONE, Checkpoints, StepReport, Team, train
from regard.training.rank_streams import RankStreams

PARTS: tuple[Part, ...] = ("train", "valid")
MOST_THREADS = 4096


@dataclass(frozen=True, eq=False)
class Fitted:
    """A run that was trained to its end."""

    folder: Path
    system: Any
    scores: Scores  # on validation examples


def fit(
    settings: Any,
    folder: Path,
    *,
    resume: bool = False,
    device: str = "cpu",
    board: bool = False,
    listen: Callable[[StepReport], None] | None = None,
    say: Say = lambda _: None,
    team: Team = ALONE,
    sharded: bool = False,
    init: Path | None = None,
) -> Fitted:
    """Train a run into a folder; one that was interrupted goes on, if `resume` allows it, as does a finished
    one that is given more steps. A new one can begin with the weights of the run in `init`.

    Every rank of a team calls it; rank 0 makes the folder and holds it until the end.
    """
    task = TASKS[settings.task]
    with ExitStack() as until_the_end:

        def hold() -> bool:
            check_empty(folder)
            return until_the_end.enter_context(locked(folder))

        team.on_rank_zero(hold)
        if (own := _fit_by_task(task, settings, folder, resume, say, team, init)) is not None:
            return own
        resume = resume or team.restarted
        team.on_rank_zero(lambda: begin(task, settings, folder, resume, say, team.size, init))
        facts = run_facts(read_config(folder))
        until_the_end.enter_context(same_threads(facts, team, say))
        model, problem = prepare(task, settings, folder, device, team, sharded)
        parts = task.load_parts(folder)
        if "init" in facts and not Checkpoints(folder / CHECKPOINTS).steps():
            put_initial(task, settings, parts, model, facts, say if team.first else lambda _: None)
        progress = train(
            model,
            problem,
            settings.training,
            folder,
            seed=settings.seed,
            listen=listen,
            board=board,
            say=say,
            team=team,
            sharded=sharded,
        )
        if sharded:  # whole again
            model = task.restore(settings, parts, load_tensors(folder / MODEL), folder / MODEL).to(device)
        system = task.system(model, parts, settings, folder)

        def scored() -> dict[str, Any]:
            scores = _validation_scores(task, settings, parts, system, say)
            write_text(folder / README, readme(system, scores, progress.step))
            return asdict(scores)

        return Fitted(folder, system, _scores(team.on_rank_zero(scored)))


@contextmanager
def same_threads(facts: Mapping[str, Any], team: Team, say: Say) -> Iterator[None]:
    """A block with as many threads as the run was begun with: the last bits of the weights depend on them."""
    now, then = torch.get_num_threads(), facts.get("threads", 0)
    if facts.get("processes") != team.size or not 0 < then <= MOST_THREADS:
        then = now  # with another number of processes sums have another order in any case
    if then != now and team.first:
        say(f"computing with {then} threads, as when the run was begun, and not with {now}: the same bits")
    torch.set_num_threads(then)
    try:
        yield
    finally:
        torch.set_num_threads(now)


def begin(
    task: Task,
    settings: Any,
    folder: Path,
    resume: bool,
    say: Say,
    processes: int = 1,
    init: Path | None = None,
) -> None:
    """Make the folder, its parts and its encoded examples, where they are not there yet."""
    facts = facts_of(settings, init, processes)
    with claimed(folder, settings, facts, resume=resume, say=say):
        if not (folder / CACHE).exists():
            parts = task.parts(settings, say)
            facts = run_facts(read_config(folder))
            if "init" in facts:
                parts = with_tokenizers_of(parts, settings, facts, say)
                check_initial(task, settings, parts, facts)
            parts.save(folder)
        count = encode(task, settings, folder, say)
        if count < processes:
            raise RunError(
                f"there are more processes ({processes}) than training {task.examples} ({count}). "
                "Start fewer."
            )


def facts_of(settings: Any, init: Path | None, processes: int = 1) -> dict[str, Any]:
    """What a run that begins now writes down of itself."""
    facts = {"threads": torch.get_num_threads(), "processes": processes, "files": file_digests(settings)}
    return facts if init is None else {**facts, **initial_facts(init)}


def encode(task: Task, settings: Any, folder: Path, say: Say) -> int:
    """Examples as fields on disk, made where they are missing; how many there are to train on."""
    parts = task.load_parts(folder)
    fields, longest = task.fields(settings, parts), task.longest(settings)
    found: dict[str, Encoded] = {}
    for part in PARTS:
        cache, name = folder / CACHE / part, "training" if part == "train" else "validation"
        if cache.exists():
            try:
                found[part] = open_cache(folder, part).check(fields)
            except DataError as error:
                say(str(error))
                shutil.rmtree(cache) if cache.is_dir() else cache.unlink()
        if part not in found:
            say(f"encoding the {name} {task.examples}")
            rows = _rows(task, settings, parts, part)
            found[part] = Encoded.make(rows, fields, cache, {k: v for k, v in longest.items() if k in fields})
            _report(found[part], name, task, settings, say)
        task.check_encoded(settings, found[part], part)
    values, fingerprint = read_config(folder), found["train"].fingerprint
    known = values["data"].get("fingerprint")
    if known is not None and known != fingerprint:
        shutil.rmtree(folder / CACHE)
        raise RunError(f"the data of {folder} have changed since it was begun: it cannot go on with others.")
    if known is None:
        write_settings(folder, settings, fingerprint, run_facts(values))
    return len(found["train"])


def open_cache(folder: Path, part: Part) -> Encoded:
    """The encoded examples of a run."""
    try:
        return Encoded.open(folder / CACHE / part)
    except OldFormatError:
        raise RunError(
            f"{folder} was begun by an earlier version of regard, and its training cannot go on. "
            "Begin it anew in another --out (its config.toml can be given as --config)."
        ) from None


def prepare(
    task: Task, settings: Any, folder: Path, device: str, team: Team = ALONE, sharded: bool = False
) -> tuple[nn.Module, "TaskProblem"]:
    """The model, and what is to be learned, for a folder that was begun."""
    if not (folder / CONFIG).exists():
        raise RunError(
            f"rank {team.rank} does not see {folder / CONFIG}, which rank 0 has written: "
            "--out must be in a place that all machines share."
        )
    train, valid = (open_cache(folder, part) for part in PARTS)
    model = task.build(settings, task.load_parts(folder))
    if not sharded:  # a sharded one may not fit on a device before
        model = model.to(device)
    batches, to_validate = task.batches(settings, train, team), list(task.validation(settings, valid))
    return model, TaskProblem(task, settings, batches, to_validate, device)


@dataclass(frozen=True, eq=False)
class TaskProblem:
    """A task with its batches: what the training loop asks."""

    task: Task
    settings: Any
    train: Batches | RankStreams
    valid: list[Batch]
    device: str

    def batches(self, epoch: int, skip: int) -> Iterator[Batch]:
        """The batches of an epoch from the one numbered `skip` on."""
        return self.train.epoch(epoch, skip)

    def carried(self) -> dict[str, Tensor]:
        """What the model keeps from one batch to the next, if its batches are streams."""
        return self.train.carried() if isinstance(self.train, RankStreams) else {}

    def carry(self, state: Mapping[str, Tensor]) -> None:
        """Go on with what was kept."""
        if isinstance(self.train, RankStreams):
            self.train.carry({name: tensor.to(self.device) for name, tensor in state.items()})

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        """The sum of the losses of a batch, and over how many units it is; 0 of an idle batch."""
        loss, count = self.task.loss(self.settings, model, batch.to(self.device))
        return (loss * 0, 0) if batch.idle else (loss, count)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Figures on the validation examples, per unit."""
        sums: dict[str, float] = {}
        count = 0
        for batch in self.valid:
            figures, some = self.task.measure(model, batch.to(self.device))
            count += some
            for name, value in figures.items():
                sums[name] = sums.get(name, 0.0) + value
        return {name: total / count for name, total in sums.items()}


def _fit_by_task(
    task: Task, settings: Any, folder: Path, resume: bool, say: Say, team: Team, init: Path | None
) -> Fitted | None:
    """The run of a task that does not train by gradient descent; None of the others."""
    if type(task).fit is Task.fit:
        return None
    if team.size > 1:
        raise RunError(f"a {task.makes} is trained in one process: start it without torchrun.")
    if init is not None:
        raise RunError(f"a {task.makes} is not trained in steps: --init is not for it.")
    with claimed(folder, settings, {"files": file_digests(settings)}, resume=resume, say=say):
        found = task.fit(settings, say)
        assert found is not None
        found.parts.save(folder)
        with beside(folder / MODEL) as draft:
            save_tensors(task.tensors(found.model), draft)
        system = task.system(found.model, found.parts, settings, folder)
        scores = system.score([])
        write_text(folder / README, readme(system, scores, None))
    return Fitted(folder, system, scores)


def _rows(task: Task, settings: Any, parts: Any, part: Part) -> Iterator[Row | None]:
    """The encoded examples of a part, a block at a time."""
    stream = task.read(settings, part)
    while block := [example for _, example in islice(stream, BLOCK)]:
        yield from task.encode(settings, parts, block)


def _report(found: Encoded, name: str, task: Task, settings: Any, say: Say) -> None:
    """Say what was left out, and why."""
    if found.too_long:
        say(
            f"{found.too_long:,} {name} {task.examples} are longer than data.longest={settings.data.longest} "
            "tokens and left out"
        )
    if found.empty:
        say(f"{found.empty:,} {name} {task.examples} are empty and left out")


def _validation_scores(task: Task, settings: Any, parts: Any, system: System, say: Say) -> Scores:
    """Scores on the validation examples that were not left out."""
    examples = [example for _, example in islice(task.read(settings, "valid"), task.scored(settings))]
    rows, longest = task.encode(settings, parts, examples), task.longest(settings)
    kept = [
        example
        for example, row in zip(examples, rows, strict=True)
        if row is not None and all(len(row[name]) <= most for name, most in longest.items() if name in row)
    ]
    say(f"scoring {len(kept):,} validation {task.examples}")
    return system.score(kept)


def _scores(values: dict[str, Any]) -> Scores:
    """Scores as they came from rank 0, as JSON."""
    rows = tuple(tuple(row) for row in values["rows"])
    return Scores(values["figures"], values["line"], tuple(values["headings"]), rows, tuple(values["notes"]))
