"""The loop that trains any problem: batches in a known order, steps that repeat exactly, checkpoints.

Before each step torch's generator is seeded from the run's seed and the step, and the place in the data is
counted, so that a run killed at any moment and continued from its last checkpoint has, bit for bit, the
weights of one that was not; as has a run that is given more steps, unless its schedule depends on their
number. This holds on one machine, with the same versions and the same number of threads and processes, on all
of which the order of sums depends.

Several processes share each batch. Losses and gradients are summed over all of them and divided by the number
of tokens they had together, so that neither their number nor that of the batches in a step matters.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.errors import WeightsError
from regard.core.files import beside
from regard.core.weights import load_tensors, put_tensors, save_tensors
from regard.training.checkpoints import MODEL, Checkpoint, Checkpoints, average
from regard.training.log import Log
from regard.training.objective import Objective
from regard.training.optimiser import memory_of, optimiser, put_memory
from regard.training.processes import ALONE, Team
from regard.training.progress import (
    Carries,
    Diverged,
    Interrupted,
    Listener,
    Problem,
    Progress,
    StepReport,
)
from regard.training.schedules import rate_at
from regard.training.sharding import put_weights, shard, weights_of, whole
from regard.training.stopping import stoppable
from regard.training.training_settings import Training


def train(
    model: nn.Module,
    problem: Problem,
    settings: Training,
    folder: Path,
    *,
    seed: int,
    listen: Listener | None = None,
    board: bool = False,
    say: Callable[[str], None] = lambda _: None,
    team: Team = ALONE,
    sharded: bool = False,
) -> Progress:
    """Train a model into a folder, from its last checkpoint if there is one; leaves model.safetensors.

    Every rank of a team calls it, with a problem that yields its part of each batch; `sharded` shards the
    model over them, in place.
    """
    return _Loop(model, problem, settings, folder, seed, listen, board, say, team, sharded).run()


class _Loop:
    def __init__(
        self,
        model: nn.Module,
        problem: Problem,
        settings: Training,
        folder: Path,
        seed: int,
        listen: Listener | None,
        board: bool,
        say: Callable[[str], None],
        team: Team,
        sharded: bool,
    ):
        self.model, self.problem, self.settings, self.folder, self.seed = (
            model,
            problem,
            settings,
            folder,
            seed,
        )
        self.listen, self.say, self.team, self.sharded = listen, say, team, sharded
        self.checkpoints = Checkpoints(folder / "checkpoints")
        self.progress = Progress()
        self.longer: Progress | None = None  # the progress of a run of more steps, where it is another
        remarks: list[str] = self.checkpoints.damaged
        found = self._restored()
        if found is not None and found.progress.finished:
            longer = found.longer or replace(found.progress, finished=False)
            if not self._ended(longer):
                self.progress = longer
                if found.longer is None:
                    remarks.append("an earlier version finished this run: it goes on from the best weights.")
        if sharded:
            shard(model, team)
        self.optimiser = optimiser(model, settings)
        if found is not None:
            put_memory(self.optimiser, found.memory)
        half = settings.precision == "bfloat16"
        self.objective = Objective(model, problem, team, sharded=sharded, half=half)
        self.log: Log | None = None
        if team.first:
            self.log = Log(
                folder / "log.jsonl", self.progress.step, folder / "tensorboard" if board else None
            )
        for text in remarks:
            self._warn(text)
        self.spent = self.tokens = 0.0  # seconds and tokens since the last report

    def run(self) -> Progress:
        progress, settings = self.progress, self.settings
        if progress.finished and self._chosen():
            return progress
        self.model.train()
        first, begun = progress.step, monotonic()
        with stoppable() as stopped:
            for batches in () if self._ended() else self._groups():
                started = monotonic()
                loss, count, rate = self._step(batches)
                self.spent, self.tokens = self.spent + monotonic() - started, self.tokens + count
                step = progress.step
                seen = self.longer = None
                if step % settings.validate == 0 or step == settings.steps:
                    self.longer = replace(progress) if step % settings.validate else None
                    seen = self._validate()
                if step % settings.report == 0 or seen is not None:
                    self._report(loss, rate, seen, (monotonic() - begun) / (step - first))
                (stop,) = self.team.sum(stopped())
                if seen is not None or step % settings.save == 0 or self._ended() or stop:
                    self._save()
                if self._ended():
                    break
                if stop:
                    raise Interrupted(f"stopped after step {step}; --resume goes on from there.")
        self._finish()
        return progress

    def _chosen(self) -> bool:
        """Put the weights of a finished run into the model; False if their file is missing or damaged."""
        try:
            put_weights(self.model, load_tensors(self.folder / MODEL), self.folder / MODEL)
        except WeightsError as error:
            self._warn(f"{error} It is made again from the checkpoints.")
            return False
        self.model.eval()
        return True

    def _ended(self, progress: Progress | None = None) -> bool:
        progress, settings = progress or self.progress, self.settings
        return progress.step >= settings.steps or 0 < settings.patience <= progress.since

    def _groups(self) -> Iterator[list[Any]]:
        """The batches of each step, from here to the end; keeps count of where in the data it is."""
        progress = self.progress
        group: list[Any] = []
        while True:
            some = False
            for batch in self.problem.batches(progress.epoch, progress.batch):
                some = True
                progress.batch += 1
                group.append(batch)
                if len(group) == self.settings.accumulate:
                    yield group
                    group = []
            if group:  # the last step of an epoch may have fewer batches
                yield group
                group = []
            if not some and progress.batch == 0:
                raise ValueError("there is nothing to train on: the data have no batch.")
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def _step(self, batches: list[Any]) -> tuple[float, int, float]:
        """One step of the optimiser: loss per token, tokens, learning rate."""
        progress, settings = self.progress, self.settings
        progress.step += 1
        torch.manual_seed(_mixed(self.seed, progress.step, self.team.rank))
        rate = rate_at(progress.step, settings, progress.halvings)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        own, tokens = 0.0, 0
        for number, batch in enumerate(batches, 1):
            loss, some = self.objective.backward(batch, last=number == len(batches))
            own, tokens = own + loss, tokens + some
        total, count = self.team.sum(own, tokens)
        parameters = [p for p in self.model.parameters() if p.grad is not None]
        for p in parameters:
            assert p.grad is not None
            p.grad.div_(count)
        most = settings.clip or math.inf
        norm = whole(torch.nn.utils.clip_grad_norm_(parameters, most))
        if not (math.isfinite(total) and bool(norm.isfinite())):
            raise Diverged(
                f"the loss became {total / count:.3g} at step {progress.step} (batch {progress.batch} of "
                f"epoch {progress.epoch + 1}). The last good state is that of step {self._last()}; "
                "try a lower training.rate or a longer training.warmup."
            )
        self.optimiser.step()
        return total / count, int(count), rate

    def _measure(self) -> dict[str, float]:
        self.model.eval()
        with torch.no_grad(), self.objective.precision():
            seen = self.problem.validate(self.model)
        self.model.train()
        return self.team.broadcast(seen)

    def _validate(self) -> dict[str, float]:
        progress, seen = self.progress, self._measure()
        progress.validated = [*progress.validated, progress.step][-self.settings.average :]
        if seen["loss"] < progress.best:
            progress.best, progress.best_step, progress.since = seen["loss"], progress.step, 0
        else:
            progress.since += 1
            progress.halvings += 1
        return seen

    def _report(self, loss: float, rate: float, seen: dict[str, float] | None, per_step: float) -> None:
        step, steps = self.progress.step, self.settings.steps
        speed = self.tokens / max(self.spent, 1e-9)
        self.spent = self.tokens = 0.0
        line: dict[str, Any] = {"step": step, "loss": loss, "rate": rate, "tokens_per_second": round(speed)}
        if seen is not None:
            line |= {f"validation_{name}": value for name, value in seen.items()}
        self._write(**line)
        if self.listen is not None:
            self.listen(StepReport(step, steps, loss, rate, speed, per_step * (steps - step), seen))

    def _write(self, **line: Any) -> None:
        if self.log is not None:
            self.log.write(**line)

    def _warn(self, text: str) -> None:
        self._write(step=self.progress.step, warning=text)
        if self.team.first:
            self.say(text)

    def _save(self) -> None:
        progress, carried = self.progress, dict[str, Tensor]()
        if isinstance(self.problem, Carries):
            carried = {name: self.team.gather(one) for name, one in self.problem.carried().items()}
        if not (self.team.first or self.sharded):
            return
        model, memory = weights_of(self.model), memory_of(self.optimiser)
        if self.team.first:
            self.checkpoints.save(Checkpoint(model, memory, progress, self.longer, carried))
            recent, both = self.checkpoints.steps()[-2:], (progress, self.longer or progress)
            needed = (step for one in both for step in (*one.validated, one.best_step))
            self.checkpoints.tidy({*recent, *needed})

    def _restored(self) -> Checkpoint | None:
        """The last whole checkpoint, its weights in the model; the first process looks for it."""
        found: list[Checkpoint] = []

        def put(checkpoint: Checkpoint | None) -> int:
            if checkpoint is None:
                return 0
            put_tensors(self.model, checkpoint.model, self.checkpoints.folder)
            self.progress, self.longer = checkpoint.progress, checkpoint.longer
            if isinstance(self.problem, Carries):
                of_ranks = checkpoint.carried.items()
                fits = all(len(every) == self.team.size for _, every in of_ranks)
                self.problem.carry({name: every[self.team.rank] for name, every in of_ranks} if fits else {})
            found.append(checkpoint)
            return checkpoint.step

        step = self.team.on_rank_zero(lambda: put(self.checkpoints.newest()))
        if step and not self.team.first:
            put(self.checkpoints.load(step))
        return found[0] if found else None

    def _last(self) -> int:
        return max(self.checkpoints.steps(), default=0)

    def _finish(self) -> None:
        """The best weights in validation, or the average of the last ones if that is better.

        The last checkpoint keeps the last weights, from which the run can go on for more steps.
        """
        progress = self.progress
        self._wait()  # for the checkpoints that are about to be read
        chosen, figures = self._candidates()
        progress.finished = True
        if self.team.first:
            with beside(self.folder / MODEL) as draft:
                save_tensors(chosen, draft)
            self._write(step=progress.step, finished=True, **figures)
            self.checkpoints.update(progress, self.longer or replace(progress, finished=False))
        put_weights(self.model, chosen, self.folder)
        self._wait()
        self.model.eval()

    def _wait(self) -> None:
        """Until the first process has written all it had to."""
        self.team.broadcast(None)

    def _candidates(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        progress = self.progress
        last, best = weights_of(self.model), self._saved(progress.best_step)
        figures: dict[str, Any] = {"best_step": progress.best_step}
        whole = {step: model for step in progress.validated if (model := self._saved(step)) is not None}
        if len(whole) > 1:
            averaged = average(list(whole.values()))
            put_weights(self.model, averaged, self.folder)
            loss = self._measure()["loss"]
            figures["averaged"], figures["averaged_loss"] = list(whole), loss
            if loss <= progress.best or best is None:
                return averaged, figures
        return best or last, figures

    def _saved(self, step: int) -> dict[str, Tensor] | None:
        """The weights of a checkpoint; None if there is none, or if it is damaged, which is said."""
        try:
            return self.checkpoints.load(step).model if step else None
        except WeightsError as error:
            self._warn(f"{error} It is left out.")
            return None


def _mixed(seed: int, step: int, rank: int) -> int:
    """A seed of its own for every step of every run, in every process."""
    return (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + rank * 0x94D049BB133111EB) % (1 << 63)
