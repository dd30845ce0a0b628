"""regard train NAME: a run of any task, from the user's files to a folder with a trained system."""

import dataclasses
import inspect
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter
from pathlib import Path
from typing import Any, NamedTuple

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from typer import Option

from regard.cli.app import OneLine, app, fail, remark, say, stderr
from regard.cli.common import Device, resolve_device
from regard.cli.task_options import parameter
from regard.core.errors import RunError, SettingsError, UnknownNameError, WeightsError
from regard.core.settings import assigned, fields_of, read_toml
from regard.data.text import DataError
from regard.runs.fit import fit
from regard.runs.folder import README, finished
from regard.tasks import OLD_NAMES, TASKS
from regard.tasks.task import Task
from regard.training import Diverged, Ended, Interrupted, Lost, StepReport, joined


class TaskCommands(OneLine):
    """One command for each task."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the tasks."""
        return list(TASKS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a task; None if there is none of that name."""
        if OLD_NAMES.get(cmd_name, cmd_name) not in TASKS:
            return None
        return command(TASKS[cmd_name])


train = typer.Typer(cls=TaskCommands, help="Train a model on your own files.", no_args_is_help=True)
app.add_typer(train, name="train")


def command(task: Task) -> Any:
    """`regard train NAME` of a task, with the options of its settings and its models."""
    places = placed_options(task)

    def run(**typed: Any) -> None:
        groups: dict[str, dict[str, Any]] = {}
        with exit_on_training_error(f"regard train {task.name}", typed["out"]):
            for name, (group, key, read, _) in places.items():
                value = typed.pop(name)
                if value is not None and value is not False and value != []:
                    groups.setdefault(group, {})[key] = read(value) if read is not None else value
            train_run(task, groups, **typed)

    _, _, out, *shared = inspect.signature(train_run).parameters.values()
    parameters = [out, *(place.parameter for place in places.values()), *shared]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    examples = "\n\n".join(f"- `{line}`" for line in task.command_examples)
    run.__doc__ = f"{task.says}\n\nExamples:\n\n{examples}\n"
    single = typer.Typer(rich_markup_mode="markdown", add_completion=False, pretty_exceptions_enable=False)
    single.command(task.name)(run)
    return typer.main.get_command(single)


class PlacedOption(NamedTuple):
    """An option of a task: the setting it belongs to, how its value is read, and how typer takes it."""

    group: str
    key: str
    read: Any
    parameter: Parameter


def placed_options(task: Task) -> dict[str, PlacedOption]:
    """The options of a task's settings and models, by name."""
    groups = {"": task.Settings}
    for group, kind in fields_of(task.Settings).items():
        for one in (kind, *typing.get_args(kind)):
            if dataclasses.is_dataclass(one) and isinstance(one, type):
                groups[group] = one
    found: dict[str, PlacedOption] = {}
    for group, holder in groups.items():
        for field in dataclasses.fields(holder):
            if flag := field.metadata.get("option"):
                facts, name = field.metadata, flag[2:].replace("-", "_")
                known = f" Known: {', '.join(task.corpora)}." if field.name == "corpus" else ""
                kind = fields_of(holder)[field.name]
                shown = parameter(name, kind, facts["says"] + known, flag, facts["metavar"])
                found[name] = PlacedOption(group, field.name, facts["read"], shown)
    if task.models:
        found["model"] = PlacedOption(
            "model", "name", None, parameter("model", str, f"{', '.join(task.models)}.")
        )
        kinds: dict[str, Any] = {}
        for entry in task.models.values():
            kinds |= fields_of(entry.config)
        for name, says in task.model_options.items():
            found[name] = PlacedOption("model", name, None, parameter(name, kinds[name], says))
    return found


def merged(
    config: Path | None, groups: Mapping[str, Mapping[str, Any]], assignments: list[str] | None
) -> dict[str, Any]:
    """Nested settings: those of the file, then of the options, then of --set."""
    values = read_toml(config) if config is not None else {}
    for group, options in groups.items():
        given = {key: str(value) if isinstance(value, Path) else value for key, value in options.items()}
        if group:
            values[group] = {**values.get(group, {}), **given}
        else:
            values.update(given)
    for assignment in assignments or []:
        values = assigned(values, assignment)
    return values


@contextmanager
def exit_on_training_error(command: str, out: Path) -> Iterator[None]:
    """Turn what can go wrong in a run into one line and an exit code; what was saved stays."""
    try:
        yield
    except (SettingsError, RunError, DataError, WeightsError, UnknownNameError, ImportError) as error:
        fail(error)
    except Ended:
        raise typer.Exit(1) from None
    except (Diverged, Interrupted, Lost) as error:
        remark(f"{command}: {error}")
        raise typer.Exit(130 if isinstance(error, Interrupted) else 1) from None
    except KeyboardInterrupt:
        remark(f"{command}: stopped; --resume goes on from the last checkpoint.")
        raise typer.Exit(130) from None
    except OSError as error:
        remark(f"{command}: {error.strerror or error}: {error.filename or out}")
        raise typer.Exit(1) from None


def train_run(
    task: Task,
    groups: Mapping[str, Mapping[str, Any]],
    *,
    out: Path = Option(..., metavar="DIR", help="The folder of the run."),
    config: Path | None = Option(
        None, metavar="FILE", help="Settings in TOML; the options here come on top."
    ),
    assignments: list[str] | None = Option(
        None, "--set", metavar="KEY=VALUE", help="Any setting, as training.rate=0.001; repeatable."
    ),
    resume: bool = Option(False, "--resume", help="Go on with the run in DIR, or begin it if there is none."),
    device: Device = "auto",
    shard: bool = Option(
        False, "--shard", help="With torchrun: shard the model, each process keeps a part of it."
    ),
    tensorboard: bool = Option(False, "--tensorboard", help="Also write TensorBoard's events into DIR."),
) -> None:
    """Train a run with a bar, and say how it went; of several processes rank 0 speaks.

    What is by keyword are the options that every task has.
    """
    values = {**merged(config, groups, assignments), "task": task.name}
    with joined(resolve_device(device)) as team:
        if shard and team.size == 1:
            launch = "torchrun --nproc-per-node 2 -m regard train"
            fail(f"--shard is for several processes: {launch} {task.name} …")

        def done_before() -> bool:
            if (resume or team.restarted) and (out / README).exists() and finished(out):
                return True
            task.resolve(values)  # what is wrong with them is said once
            return False

        if team.on_rank_zero(done_before):
            if team.first:
                say(f"{out} is trained to its end; there is nothing to resume.")
            return
        settings = task.resolve(values)
        steps = getattr(getattr(settings, "training", None), "steps", None)
        with Watching(steps, quiet=not team.first, unit=task.unit) as watching:
            done = fit(
                settings,
                out,
                resume=resume,
                device=team.device,
                board=tensorboard,
                listen=watching.see,
                say=watching.say,
                team=team,
                sharded=shard,
            )
    if team.first:
        say(done.scores.line + ("" if steps is None else " (validation)"))
        for line in task.usage[:1]:
            say(f"{out}: {line.replace('DIR', str(out))}")


class Watching(Progress):
    """A bar with loss, speed and time left; a line for each validation."""

    def __init__(self, steps: int | None, quiet: bool = False, unit: str = "tokens"):
        self.quiet, self.unit = quiet, unit
        screen = stderr()
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
            console=screen,
            transient=True,
            disable=quiet or not screen.is_terminal,
        )
        self.training = self.add_task("training", total=steps, figures="", visible=False)

    def say(self, text: str) -> None:
        """Print a remark."""
        if not self.quiet:
            remark(text)

    def see(self, report: StepReport) -> None:
        """Show a report of the training loop."""
        figures = f"loss {report.loss:.3f}  {report.tokens_per_second:,.0f} {self.unit}/s"
        self.update(self.training, completed=report.step, figures=figures, visible=True)
        if report.validation is not None:
            shown = ", ".join(f"{name} {value:.4f}" for name, value in report.validation.items())
            left = f"{report.seconds_left / 60:.1f} min left"
            self.say(f"step {report.step:,}: {figures}; validation {shown}; {left}")
