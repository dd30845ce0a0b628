"""regard train NAME: a run of any task, from the user's files to a folder with a trained system."""

import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from inspect import Parameter
from pathlib import Path
from shlex import quote
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from typer import Option

from regard.cli.app import COMMANDS, LazyGroup, app, fail, os_error, remark, say, stderr
from regard.cli.common import Device, resolve_device
from regard.cli.task_options import option, parameter, setting_groups
from regard.core.errors import RunError, SettingsError, UnknownNameError, WeightsError
from regard.core.files import read_text
from regard.core.settings import assigned, fields_of, read_toml
from regard.core.settings import facts_of as setting_facts
from regard.tasks import OLD_NAMES, SAYS, TASKS

if TYPE_CHECKING:
    from regard.tasks.task import Task
    from regard.training import StepReport


class TaskCommands(LazyGroup):
    """One command for each task."""

    @property
    def says(self) -> dict[str, str]:  # type: ignore[override]
        """The names of the tasks, and a sentence of each."""
        return {name: SAYS.get(name) or TASKS[name].says for name in TASKS}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a task; None if there is none of that name."""
        return super().get_command(ctx, OLD_NAMES.get(cmd_name, cmd_name))

    def make_command(self, name: str) -> Any:
        """Its options come from the settings of the task."""
        return command(TASKS[name])


train = typer.Typer(cls=TaskCommands, no_args_is_help=True)
app.add_typer(train, name="train", help=COMMANDS["train"])


def command(task: "Task") -> Any:
    """`regard train NAME` of a task, with the options of its settings and its models."""
    places = placed_options(task)

    def work(**typed: Any) -> None:
        from regard.data.text_lines import check_no_pipe

        groups: dict[str, dict[str, Any]] = {}
        with exit_on_training_error(f"regard train {task.name}", typed["out"]), as_typed(places, typed):
            for name, (group, key, read, _) in places.items():
                value = typed.pop(name)
                if isinstance(value, Path):
                    check_no_pipe(value)
                if value is not None and value is not False and value != []:
                    found = read(value) if read is not None else value  # an option may stand for several
                    groups.setdefault(group, {}).update(found if isinstance(found, dict) else {key: found})
            train_run(task, groups, **typed)

    _, _, out, *shared = inspect.signature(train_run).parameters.values()
    parameters = [out, *(place.parameter for place in places.values()), *shared]
    run: Any = work
    run.__signature__ = inspect.Signature(parameters)
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


def placed_options(task: "Task") -> dict[str, PlacedOption]:
    """The options of a task's settings and models, by name."""
    from regard.maps import MAPS
    from regard.scores import SCORES

    found: dict[str, PlacedOption] = {}
    for group, holder in setting_groups(task).items():
        kinds = fields_of(holder)
        for key, facts in setting_facts(holder).items():
            if flag := facts.get("option"):
                name = flag[2:].replace("-", "_")
                corpora = task.corpora if key == "corpus" else ()
                known = f" Known: {', '.join(corpora)}." if corpora else ""
                shown = parameter(name, kinds[key], facts["says"] + known, flag, facts["metavar"], corpora)
                found[name] = PlacedOption(group, key, facts["read"], shown)
    if task.models:
        found["model"] = PlacedOption(
            "model", "name", None, parameter("model", str, f"{', '.join(task.models)}.", choices=task.models)
        )
        kinds = {}
        for entry in task.models.values():
            kinds |= fields_of(entry.config)
        names: dict[str, Any] = {"score": SCORES, "map": MAPS}
        for name, says in task.model_options.items():
            shown = parameter(name, kinds[name], says, choices=names.get(name, ()))
            found[name] = PlacedOption("model", name, None, shown)
    return found


def merged(
    own: Mapping[str, Any],
    config: Path | None,
    groups: Mapping[str, Mapping[str, Any]],
    assignments: list[str] | None,
) -> dict[str, Any]:
    """Nested settings: those of a run that goes on, then of the file, then of the options, then of --set."""
    values = dict(own)
    for group, given in (read_toml(config) if config is not None else {}).items():
        both = isinstance(given, Mapping) and isinstance(values.get(group), Mapping)
        values[group] = {**values[group], **given} if both else given
    for group, options in groups.items():
        given = {key: str(value) if isinstance(value, Path) else value for key, value in options.items()}
        if group == "model" and given.get("name", "") not in ("", own.get("model", {}).get("name")):
            values.pop(group, None)  # another model has other settings
        if group:
            values[group] = {**values.get(group, {}), **given}
        else:
            values.update(given)
    for assignment in assignments or []:
        values = assigned(values, assignment)
    return values


def other_data(own: dict[str, Any], task: "Task", groups: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Settings of a run without its corpus where files are typed, and without files where a corpus is."""
    typed, files = groups.get("data", {}), getattr(fields_of(task.Settings).get("data"), "files", ())
    instead = ["corpus"] if any(name in typed for name in files) else files if "corpus" in typed else []
    if not isinstance(own.get("data"), Mapping):
        return own
    return {**own, "data": {name: value for name, value in own["data"].items() if name not in instead}}


@contextmanager
def as_typed(places: Mapping[str, PlacedOption], typed: Mapping[str, Any]) -> Iterator[None]:
    """Name options in complaints about settings, unless these came from a file or --set."""
    file, assigned_keys = typed["config"], typed["assignments"] or []
    try:
        yield
    except (SettingsError, RunError) as error:
        said, text = str(error), ""
        with suppress(OSError, ValueError):
            text = "" if file is None else read_text(file)
        given = " ".join([text, *assigned_keys])
        for name, (group, key, *_) in places.items() if not said.startswith("no setting") else ():
            if group and not re.search(rf"\b{key}\s*=", given):
                said = re.sub(rf"(?<![\w.-]){group}\.{key}(?![\w.]*\w)", option(name), said)
        raise type(error)(said) from None


@contextmanager
def exit_on_training_error(command: str, out: Path, again: str = "--resume") -> Iterator[None]:
    """Turn what can go wrong in a run into one line and an exit code; `again` goes on from what was saved."""
    from regard.data.text import DataError
    from regard.training import Diverged, Ended, Interrupted, Lost

    try:
        yield
    except (SettingsError, RunError, DataError, WeightsError, UnknownNameError, ImportError) as error:
        fail(error)
    except Ended:
        raise typer.Exit(1) from None
    except (Diverged, Interrupted, Lost) as error:
        remark(f"{command}: {error}".replace("--resume", again))
        raise typer.Exit(130 if isinstance(error, Interrupted) else 1) from None
    except KeyboardInterrupt:
        remark(f"{command}: stopped; {again} goes on from the last checkpoint.")
        raise typer.Exit(130) from None
    except BrokenPipeError:
        raise
    except (OSError, MemoryError) as error:
        fail(f"{os_error(error, out).rstrip('.')}; {kept(out).replace('--resume', again)}")


def kept(out: Path) -> str:
    """What a folder holds after a run failed in it, and what to do."""
    from regard.runs.folder import CHECKPOINTS
    from regard.training import Checkpoints

    done = Checkpoints(out / CHECKPOINTS).progress()
    if done is not None:
        return f"what was learned until step {done[0].step:,} is kept: make room, and go on with --resume."
    if out.exists():
        return "the run is kept: make room, and go on with --resume."
    return "nothing was left behind."


def train_run(
    task: "Task",
    groups: Mapping[str, Mapping[str, Any]],
    *,
    out: Path = Option(..., metavar="DIR", help="The folder of the run."),
    config: Path | None = Option(
        None, metavar="FILE", help="Settings in TOML; the options here come on top."
    ),
    assignments: list[str] | None = Option(
        None, "--set", metavar="KEY=VALUE", help="Any setting, as training.rate=0.001; repeatable."
    ),
    resume: bool = Option(
        False,
        "--resume",
        help="Go on with the run in DIR, also for more --steps, or begin it if there is none. Settings that "
        "are not given are its own.",
    ),
    init: Path | None = Option(
        None, "--init", metavar="RUN", help="Begin with the weights and the tokenizer of another run."
    ),
    device: Device = "auto",
    shard: bool = Option(
        False, "--shard", help="With torchrun: shard the model, each process keeps a part of it."
    ),
    tensorboard: bool = Option(False, "--tensorboard", help="Also write TensorBoard's events into DIR."),
) -> None:
    """Train a run with a bar, and say how it went; of several processes rank 0 speaks.

    What is by keyword are the options that every task has.
    """
    from regard.runs.fit import facts_of, fit
    from regard.runs.folder import CONFIG, README, check_resumable, finished
    from regard.runs.initial import inherited
    from regard.runs.lock import remove_dead_lock
    from regard.training import joined

    with joined(resolve_device(device)) as team:
        going_on = (resume or team.restarted) and (out / CONFIG).exists()
        own = read_toml(out / CONFIG) if going_on else {}
        held = own.get("task", task.name)
        if OLD_NAMES.get(str(held), held) != task.name:
            fail(f"{out} holds a run of {held}, not of {task.name}: choose another --out.")
        values = {**merged(other_data(own, task, groups), config, groups, assignments), "task": task.name}
        if init is not None and not going_on:
            values = inherited(values, task, init)
        if shard and team.size == 1:
            launch = "torchrun --nproc-per-node 2 -m regard train"
            fail(f"--shard is for several processes: {launch} {task.name} …")

        def done_before() -> bool:
            settings = task.resolve(values)  # what is wrong with them is said once
            if not (going_on and (out / README).exists() and finished(out, settings)):
                return False
            check_resumable(out, settings, facts_of(settings, init))
            remove_dead_lock(out)
            return True

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
                init=init,
            )
    if team.first:
        say(done.scores.line + ("" if steps is None else " (validation)"))
        for line in task.usage[:1]:
            say(f"{out}: {line.replace('DIR', quote(str(out)))}")


class Watching(Progress):
    """A bar with loss, speed and time left; a line for each validation.

    Without a terminal there is no bar, and a line at least every `SILENCE` seconds instead.
    """

    SILENCE = 30.0

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
        self.begun = self.spoke = monotonic()
        self.latest, self.ended = "starting", Event()

    def start(self) -> None:
        """Begin to watch."""
        super().start()
        if self.disable and not self.quiet:
            Thread(target=self._break_silence, daemon=True).start()

    def stop(self) -> None:
        """End it."""
        self.ended.set()
        super().stop()

    def say(self, text: str) -> None:
        """Print a remark."""
        self.latest, self.spoke = text, monotonic()
        if not self.quiet:
            remark(text)

    def see(self, report: "StepReport") -> None:
        """Show a report of the training loop."""
        figures = f"loss {report.loss:.3f}  {report.tokens_per_second:,.0f} {self.unit}/s"
        self.update(self.training, completed=report.step, figures=figures, visible=True)
        validation, left = "", f"{report.seconds_left / 60:.1f} min left"
        if report.validation is not None:
            shown = ", ".join(f"{name} {value:.4f}" for name, value in report.validation.items())
            validation = f"; validation {shown}"
        self.latest = f"step {report.step:,}: {figures}{validation}; {left}"
        if validation:
            self.say(self.latest)

    def _break_silence(self) -> None:
        """Repeat what is known last, with the time since the beginning, where nothing was said for long."""
        while not self.ended.wait(max(0.01, self.spoke + self.SILENCE - monotonic())):
            if monotonic() - self.spoke >= self.SILENCE:
                self.spoke = monotonic()
                remark(f"{self.latest} ({(monotonic() - self.begun) / 60:.1f} min so far)")
