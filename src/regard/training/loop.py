"""The loop that trains any task: batches in a known order, steps that can be repeated, states that are kept.

Before each step torch's generator is seeded from the run's seed and the step, and the place in the data is
counted, so that a run killed at any moment and continued from its last checkpoint has, bit for bit, the
weights of one that was not.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.files import beside
from regard.core.weights import put_tensors, save_tensors, tensors_of
from regard.training.checkpoints import Checkpoint, Checkpoints
from regard.training.log import Log
from regard.training.schedules import rate_at
from regard.training.settings import Training
from regard.training.stopping import stoppable
from regard.training.task import Diverged, Interrupted, Listener, Progress, Report, Task


def train(
    model: nn.Module,
    task: Task,
    settings: Training,
    folder: Path,
    *,
    seed: int,
    listen: Listener | None = None,
    board: bool = False,
) -> Progress:
    """Train a model into a folder, from its last checkpoint if there is one; leaves model.safetensors."""
    return _Loop(model, task, settings, folder, seed, listen, board).run()


class _Loop:
    def __init__(
        self,
        model: nn.Module,
        task: Task,
        settings: Training,
        folder: Path,
        seed: int,
        listen: Listener | None,
        board: bool,
    ):
        self.model, self.task, self.settings, self.folder, self.seed = model, task, settings, folder, seed
        self.device = next(model.parameters()).device
        self.listen = listen
        self.optimiser = _optimiser(model, settings)
        self.checkpoints = Checkpoints(folder / "checkpoints")
        self.progress = Progress()
        self._restore()
        self.log = Log(folder / "log.jsonl", self.progress.step, folder / "tensorboard" if board else None)
        for damage in self.checkpoints.damaged:
            self.log.write(step=self.progress.step, warning=damage)
        self.spent = self.tokens = 0.0  # seconds and tokens since the last report

    def run(self) -> Progress:
        progress, settings = self.progress, self.settings
        if progress.finished:
            return progress
        self.model.train()
        first, begun = progress.step, monotonic()
        with stoppable() as stopped:
            for batches in () if self._ended() else self._groups():
                started = monotonic()
                loss, count, rate = self._step(batches)
                self.spent, self.tokens = self.spent + monotonic() - started, self.tokens + count
                step = progress.step
                seen = None
                if step % settings.validate == 0 or step == settings.steps:
                    seen = self._validate()
                if step % settings.report == 0 or seen is not None:
                    self._report(loss, rate, seen, (monotonic() - begun) / (step - first))
                if seen is not None or step % settings.save == 0 or self._ended() or stopped():
                    self._save()
                if self._ended():
                    break
                if stopped():
                    raise Interrupted(f"stopped after step {step}; --resume goes on from there.")
        self._finish()
        return progress

    def _ended(self) -> bool:
        progress, settings = self.progress, self.settings
        return progress.step >= settings.steps or 0 < settings.patience <= progress.since

    def _groups(self) -> Iterator[list[Any]]:
        """The batches of each step, from here to the end; keeps count of where in the data it is."""
        progress = self.progress
        group: list[Any] = []
        while True:
            some = False
            for batch in self.task.batches(progress.epoch, progress.batch):
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
        torch.manual_seed(_mixed(self.seed, progress.step))
        rate = rate_at(progress.step, settings, progress.halvings)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        total, count = 0.0, 0
        for batch in batches:
            with self._precision():
                loss, tokens = self.task.loss(self.model, batch)
            loss.backward()
            total, count = total + loss.item(), count + tokens
        parameters = [p for p in self.model.parameters() if p.grad is not None]
        for p in parameters:
            assert p.grad is not None
            p.grad.div_(count)
        most = settings.clip or math.inf
        norm = torch.nn.utils.clip_grad_norm_(parameters, most)
        if not (math.isfinite(total) and bool(norm.isfinite())):
            raise Diverged(
                f"the loss became {total / count:.3g} at step {progress.step} (batch {progress.batch} of "
                f"epoch {progress.epoch + 1}). The last good state is that of step {self._last()}; "
                "try a lower training.rate or a longer training.warmup."
            )
        self.optimiser.step()
        return total / count, count, rate

    def _precision(self) -> Any:
        half = self.settings.precision == "bfloat16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=half)

    def _measure(self) -> dict[str, float]:
        self.model.eval()
        with torch.no_grad(), self._precision():
            seen = self.task.validate(self.model)
        self.model.train()
        return seen

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
        self.log.write(**line)
        if self.listen is not None:
            self.listen(Report(step, steps, loss, rate, speed, per_step * (steps - step), seen))

    def _save(self) -> None:
        progress = self.progress
        state = {"progress": asdict(progress), "seed": self.seed}
        memory = {
            f"{index}.{name}": tensor.cpu() for index, held in self.optimiser.state_dict()["state"].items()
            for name, tensor in held.items()
        }  # fmt: skip
        self.checkpoints.save(Checkpoint(progress.step, tensors_of(self.model), memory, state))
        recent = self.checkpoints.steps()[-2:]
        self.checkpoints.tidy({*recent, *progress.validated, progress.best_step})

    def _restore(self) -> None:
        found = self.checkpoints.newest()
        if found is None:
            return
        self.progress = Progress(**found.state["progress"])
        put_tensors(self.model, found.model, self.checkpoints.folder)
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in found.memory.items():
            index, what = name.split(".", 1)
            state.setdefault(int(index), {})[what] = tensor
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": state, "param_groups": groups})

    def _last(self) -> int:
        return max(self.checkpoints.steps(), default=0)

    def _finish(self) -> None:
        """The best weights in validation, or the average of the last ones if that is better."""
        progress = self.progress
        chosen, figures = self._candidates()
        with beside(self.folder / "model.safetensors") as draft:
            save_tensors(chosen, draft)
        put_tensors(self.model, chosen, self.folder)
        progress.finished = True
        self.log.write(step=progress.step, finished=True, **figures)
        self._save()
        self.model.eval()

    def _candidates(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        progress, steps = self.progress, self.progress.validated
        best = self.checkpoints.load(progress.best_step) if progress.best_step else None
        weights = tensors_of(self.model) if best is None else best.model
        figures: dict[str, Any] = {"best_step": progress.best_step}
        if len(steps) > 1:
            averaged = average([self.checkpoints.load(step).model for step in steps])
            put_tensors(self.model, averaged, self.folder)
            loss = self._measure()["loss"]
            figures["averaged"], figures["averaged_loss"] = steps, loss
            if loss <= progress.best:
                return averaged, figures
        return weights, figures


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


def _optimiser(model: nn.Module, settings: Training) -> torch.optim.Optimizer:
    kind = torch.optim.Adam if settings.optimiser == "adam" else torch.optim.AdamW
    parameters = [p for p in model.parameters() if p.requires_grad]
    betas = (settings.beta1, settings.beta2)
    return kind(
        parameters, lr=settings.rate, betas=betas, eps=1e-9, weight_decay=settings.decay, foreach=True
    )


def _mixed(seed: int, step: int) -> int:
    """A seed of its own for every step of every run."""
    return (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9) % (1 << 63)
