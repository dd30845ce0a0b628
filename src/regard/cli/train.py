"""regard train: a run, from the user's files to a folder with a trained system."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from typer import Option

from regard.cli.app import app, aside, complain, console
from regard.core.errors import RunError, SettingsError, UnknownNameError, WeightsError
from regard.core.settings import assigned, read_toml
from regard.training import Diverged, Ended, Interrupted, Lost, Report, joined

train = typer.Typer(help="Train a model on your own files.", no_args_is_help=True)
app.add_typer(train, name="train")

Source = Annotated[
    Path | None, Option(help="Sentences, one per line (.gz too); or pairs in one .tsv or .jsonl.")
]
Target = Annotated[Path | None, Option(help="Their translations, line by line.")]
ValidSource = Annotated[Path | None, Option(help="Sentences to validate on; without them some are held out.")]
ValidTarget = Annotated[Path | None, Option(help="Their translations.")]
Corpus = Annotated[
    str | None, Option(help="A generated corpus instead of files: phrases-de, phrases-fr, copy …")
]
Model = Annotated[str | None, Option(help="rnn, bahdanau, luong or transformer.")]
Score = Annotated[str | None, Option(help="Any score of `regard scores`.")]
Map = Annotated[str | None, Option(help="Any differentiable row map of `regard maps`.")]
LearnAlpha = Annotated[bool, Option("--learn-alpha", help="With --map entmax: every head learns its α.")]
Bias = Annotated[
    list[str] | None,
    Option(
        "--bias",
        metavar="NAME",
        help="Structural bias: position, markov:K, fertility:K, global-fertility:γ, trace:γ; repeatable.",
    ),
]
Copy = Annotated[str | None, Option(help="Copy words of the source: by a gate or a sentinel.")]
Steps = Annotated[int | None, Option(help="Steps of training.")]
Seed = Annotated[int | None, Option(help="The run is repeated exactly by the same seed.")]
Out = Annotated[Path, Option(metavar="DIR", help="The folder of the run.")]
Config = Annotated[
    Path | None, Option(metavar="FILE", help="Settings in TOML; the options here come on top.")
]
Set = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Any setting, as training.rate=0.001; repeatable."),
]
Resume = Annotated[bool, Option("--resume", help="Go on with the run in DIR, or begin it if there is none.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or mps.")]
Shard = Annotated[
    bool, Option("--shard", help="With torchrun: share the model out, each process keeps a part of it.")
]
Board = Annotated[bool, Option("--tensorboard", help="Also write TensorBoard's events into DIR.")]


@train.command()
def translation(
    out: Out,
    source: Source = None,
    target: Target = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    corpus: Corpus = None,
    model: Model = None,
    score: Score = None,
    map: Map = None,
    learn_alpha: LearnAlpha = False,
    bias: Bias = None,
    copy: Copy = None,
    steps: Steps = None,
    seed: Seed = None,
    config: Config = None,
    set: Set = None,
    resume: Resume = False,
    device: Device = "auto",
    shard: Shard = False,
    tensorboard: Board = False,
) -> None:
    """Train a translator into DIR; `regard translate DIR` then uses it.

    Examples:

    - `regard train translation --corpus phrases-de --steps 2000 --out runs/dates`

    - `regard train translation --source train.en.gz --target train.de.gz --map entmax15 --out runs/en-de`

    - `regard train translation --config en-de.toml --set training.rate=0.0005 --out runs/en-de --resume`

    - `regard train translation --corpus phrases-fr --model luong --bias markov:2 --copy gate --out runs/fr`

    - `torchrun --nproc-per-node 2 -m regard train translation --config en-de.toml --out runs/en-de --resume`
    """
    groups: dict[str, dict[str, Any]] = {
        "data": {
            "source": source,
            "target": target,
            "valid_source": valid_source,
            "valid_target": valid_target,
            "corpus": corpus,
        },
        "model": {
            "name": model,
            "score": score,
            "map": map,
            "learn_alpha": learn_alpha or None,
            "bias": bias or None,
            "copy": copy,
        },
        "training": {"steps": steps},
    }
    run(merged(config, groups, {"seed": seed}, set), out, resume, chosen(device), tensorboard, shard)


def merged(
    config: Path | None,
    groups: dict[str, dict[str, Any]],
    single: dict[str, Any],
    assignments: list[str] | None,
) -> dict[str, Any]:
    """Nested settings: those of the file, then of the options, then of --set."""
    try:
        values = read_toml(config) if config is not None else {}
        for group, options in groups.items():
            given = {k: str(v) if isinstance(v, Path) else v for k, v in options.items() if v is not None}
            values[group] = {**values.get(group, {}), **given}
        values.update({k: v for k, v in single.items() if v is not None})
        for assignment in assignments or []:
            values = assigned(values, assignment)
    except SettingsError as error:
        complain(error)
    return values


def alone(command: str) -> None:
    """Stop if torchrun has started several processes of a command that is for one."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        complain(f"{command} trains in one process: start it without torchrun.")


def chosen(device: str) -> str:
    """The device to use: with "auto" an accelerator if there is one."""
    if device == "auto":
        here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return "cpu" if here is None else here.type
    if device not in ("cpu", "cuda", "mps"):
        complain(f"--device must be auto, cpu, cuda or mps; got {device!r}.")
    if device == "cuda" and not torch.cuda.is_available():
        complain("--device cuda: there is none here. Use --device auto.")
    if device == "mps" and not torch.backends.mps.is_available():
        complain("--device mps: there is none here. Use --device auto.")
    return device


@contextmanager
def attempt(command: str, out: Path) -> Iterator[None]:
    """Turn what can go wrong in a run into one line and an exit code; what was saved stays."""
    from regard.data.text import DataError

    try:
        yield
    except (SettingsError, RunError, DataError, WeightsError, UnknownNameError, ImportError) as error:
        complain(error)
    except Ended:
        raise typer.Exit(1) from None
    except (Diverged, Interrupted, Lost) as error:
        aside().print(f"{command}: {error}", soft_wrap=True)
        raise typer.Exit(130 if isinstance(error, Interrupted) else 1) from None
    except KeyboardInterrupt:
        aside().print(f"{command}: stopped; --resume goes on from the last checkpoint.", soft_wrap=True)
        raise typer.Exit(130) from None
    except OSError as error:
        aside().print(f"{command}: {error.strerror or error}: {error.filename or out}", soft_wrap=True)
        raise typer.Exit(1) from None


def run(
    values: dict[str, Any], out: Path, resume: bool, device: str, board: bool, sharded: bool = False
) -> None:
    """Train a translator and say how it went."""
    from regard.runs import fit, resolved

    more = {"sharded": True} if sharded else {}
    done = trained(fit, resolved, values, out, resume, device, board, "regard train", "tokens", **more)
    if done is None:
        return
    answer, scores = console(), done.quality
    figures = f"BLEU {scores.bleu:.1f}, chrF {scores.chrf:.1f}, exact match {scores.exact_match:.3f}"
    answer.print(f"{figures} on {scores.sentences:,} validation sentences", soft_wrap=True)
    answer.print(f"{out}: regard translate {out} < in.txt > out.txt", soft_wrap=True)


def trained(
    fit: Callable[..., Any],
    resolve: Callable[[dict[str, Any]], Any],
    values: dict[str, Any],
    out: Path,
    resume: bool,
    device: str,
    board: bool,
    command: str,
    unit: str,
    **more: Any,
) -> Any:
    """What `fit` returns, with a bar while it trains; of several processes the first one speaks.

    None in the others, and where there is nothing left to do.
    """
    from regard.runs.folder import README, finished

    with attempt(command, out), joined(device) as team:
        if more.get("sharded") and team.size == 1:
            complain("--shard is for several processes: torchrun --nproc-per-node 2 -m regard train …")

        def done_before() -> bool:
            if (resume or team.restarted) and (out / README).exists() and finished(out):
                return True
            resolve(values)  # what is wrong with them is said once
            return False

        if team.on_rank_zero(done_before):
            if team.first:
                console().print(f"{out} is trained to its end; there is nothing to resume.", soft_wrap=True)
            return None
        settings = resolve(values)
        with Watching(settings.training.steps, quiet=not team.first, unit=unit) as watching:
            more |= {"listen": watching.see, "say": watching.say, "board": board}
            done = fit(settings, out, resume=resume, device=team.device, team=team, **more)
    return done if team.first else None


class Watching:
    """A bar with loss, speed and time left; a line for each validation."""

    def __init__(self, steps: int, quiet: bool = False, unit: str = "tokens"):
        self.quiet, self.unit = quiet, unit
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
            console=aside(),
            transient=True,
            disable=quiet,
        )
        self.task = self.bar.add_task("training", total=steps, figures="", visible=False)

    def __enter__(self) -> "Watching":
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def say(self, text: str) -> None:
        """A remark."""
        if not self.quiet:
            self.bar.console.print(text, soft_wrap=True)

    def see(self, report: Report) -> None:
        """What a report of the loop looks like."""
        figures = f"loss {report.loss:.3f}  {report.tokens_per_second:,.0f} {self.unit}/s"
        self.bar.update(self.task, completed=report.step, figures=figures, visible=True)
        if report.validation is not None:
            shown = ", ".join(f"{name} {value:.4f}" for name, value in report.validation.items())
            left = f"{report.seconds_left / 60:.1f} min left"
            self.say(f"step {report.step:,}: {figures}; validation {shown}; {left}")
