"""regard audit: may the attention of a run be shown as the reason of what it says?"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from typer import Argument, Exit, Option

from regard.cli.app import app, aside, complain, console
from regard.cli.train import chosen
from regard.core.errors import RunError, SettingsError, WeightsError

if TYPE_CHECKING:
    from regard.audits.plan import Plan
    from regard.audits.report import Report

Runs = Annotated[list[Path] | None, Argument(metavar="[DIR]...", help="Folders of trained classifiers.")]
Data = Annotated[Path | None, Option(metavar="FILE", help="Labelled texts to audit on: .tsv or .jsonl.")]
Train = Annotated[
    Path | None, Option(metavar="FILE", help="Texts to train on, for tests that train again. Minutes.")
]
Quick = Annotated[bool, Option("--quick", help="At most 500 texts, and nothing is trained.")]
Html = Annotated[Path | None, Option(metavar="FILE", help="The report, for people.")]
Json = Annotated[Path | None, Option("--json", metavar="FILE", help="The report, for programs.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace reports that are there already.")]
Seed = Annotated[int, Option(help="Of whatever is drawn at random.")]
SelfTest = Annotated[bool, Option("--self-test", help="Audit models whose truth is known, and say how well.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or mps.")]


@app.command()
def audit(
    runs: Runs = None,
    data: Data = None,
    train: Train = None,
    quick: Quick = False,
    html: Html = None,
    json_: Json = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    self_test: SelfTest = False,
    device: Device = "auto",
) -> None:
    """Say whether the attention of the run in DIR is evidence of what the run used, and how sure that is.

    The answer is a sentence and a grade from 0 to 1, by three conditions: decisions need the weights, other
    weights do not give the same answers, and the words that are named matter by themselves. A report stays in
    DIR/audit. What was stopped goes on with the same command. Several runs are compared.

    Examples:

    - `regard audit runs/sst --data test.tsv --quick --html report.html`

    - `regard audit runs/sst --data test.tsv --train train.tsv --html report.html --json report.json`

    - `regard audit runs/softmax runs/entmax15 --data test.tsv --html compared.html`
    """
    if self_test:
        return test_itself()
    if not runs or data is None:
        complain("a run and --data, labelled texts, are needed (or --self-test).")
    for file, ending in ((html, ".html"), (json_, ".json")):
        if file is not None and file.suffix != ending:
            complain(f"{file} must end in {ending}.")
        if file is not None and file.exists() and not overwrite:
            complain(f"{file} is there already, and a report is not overwritten: give --overwrite.")
    try:
        reports = [audited(run, data, train, quick, overwrite, seed, chosen(device)) for run in runs]
        write(reports, html, json_)
    except (RunError, SettingsError, WeightsError, ImportError, ValueError) as error:
        complain(error)
    except OSError as error:
        complain(error)
    except KeyboardInterrupt:
        aside().print("stopped; the same command goes on from here")
        raise Exit(130) from None
    show(reports)


def audited(
    run: Path, data: Path, train: Path | None, quick: bool, overwrite: bool, seed: int, device: str
) -> "Report":
    """The report of one run, with a bar while it is made."""
    from regard.audits.folder import FOLDER, audit_run
    from regard.data.labelled import labelled
    from regard.runs.fit_classifier import is_classifier, load_classifier

    if run.is_dir() and not is_classifier(run):
        raise RunError(
            f"{run} holds no classifier: audits are for these. regard train classification makes one."
        )
    system = load_classifier(run, device)
    kind = "quick" if quick else "full"
    there = run / FOLDER / f"{kind}.json"
    if there.exists() and not overwrite:
        raise RunError(f"{there} is there already, and a report is not overwritten: give --overwrite.")
    items = [system.classes.check(item, f"{data}, text {i}") for i, item in enumerate(labelled(data), 1)]
    again = None if train is None else trainable(run, system, train)
    with Progress(
        TextColumn("{task.description:28}"), BarColumn(), TimeElapsedColumn(), console=aside(), transient=True
    ) as progress:
        task = progress.add_task("planning")

        def tell(planned: "Plan") -> None:
            for line in plan_lines(planned, run):
                progress.console.print(line, soft_wrap=True, markup=False)
            names = [test.name for test in planned.tests]
            progress.update(task, total=len(names), description=names[0].replace("_", " "))
            progress_of.update({a: b for a, b in zip(names, [*names[1:], "report"], strict=True)})

        progress_of: dict[str, str] = {}

        def listen(name: str, _: Any) -> None:
            progress.update(task, advance=1, description=progress_of[name].replace("_", " "))

        return audit_run(run, system, items, train=again, quick=quick, seed=seed, tell=tell, listen=listen)


def plan_lines(planned: "Plan", run: Path) -> list[str]:
    """What will be done, in how long, and what not."""
    total = planned.total
    took = f"{total:.0f} seconds" if total < 90 else f"{total / 60:.0f} minutes"
    lines = [f"{run}: {len(planned.tests)} tests, about {took}"]
    by_reason: dict[str, list[str]] = {}
    for name, why in planned.left_out.items():
        by_reason.setdefault(why, []).append(name.replace("_", " "))
    return lines + [f"left out: {', '.join(names)} ({why})" for why, names in by_reason.items()]


def trainable(run: Path, system: Any, train: Path) -> Any:
    """What tests that train again need."""
    from regard.audits.training import of_run

    return of_run(run, system, train)


def write(reports: "list[Report]", html: Path | None, json_: Path | None) -> None:
    """The files that were asked for."""
    from regard.audits.page import page
    from regard.core.files import write_text

    if html is not None:
        write_text(html, page(reports))
    if json_ is not None:
        told = [report.as_dict() for report in reports]
        what = told[0] if len(told) == 1 else told
        write_text(json_, json.dumps(what, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def show(reports: "list[Report]") -> None:
    """Answers, and a table of figures with a column for each run."""
    from regard.audits.table import AUDITS, in_order
    from regard.audits.verdict import score

    screen = console()
    for report in reports:
        screen.print(report.answer, markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("condition", "test"):
        table.add_column(heading)
    for report in reports:
        single = len(reports) == 1
        name = report.name.removeprefix("the attention of ")
        table.add_column("value" if single else name, justify="right")
        if single:
            table.add_column("yardstick", justify="right")
            table.add_column("score", justify="right")
    for name in in_order(AUDITS):
        found = [report.tests.get(name) for report in reports]
        if not any(one is not None and one.value is not None for one in found):
            continue
        cells = []
        for one in found:
            cells.append(_figure(None if one is None else one.value))
            if len(reports) == 1 and one is not None:
                graded = score(name, one) if AUDITS[name].condition else None
                cells += [_figure(one.yardstick), "" if graded is None else f"{graded:.2f}"]
        table.add_row(AUDITS[name].condition or "", name.replace("_", " "), *cells)
    screen.print(table)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def test_itself() -> None:
    """Audit planted models and print how well their groups are told apart."""
    from regard.audits.planted import self_test

    with Progress(
        TextColumn("{task.description:28}"), BarColumn(), TimeElapsedColumn(), console=aside(), transient=True
    ) as progress:
        task = progress.add_task("planted models", total=None)

        def listen(kind: str, done: int, total: int) -> None:
            progress.update(task, completed=done, total=total, description=kind)

        found = self_test(listen=listen)
    screen = console()
    screen.print(str(found), markup=False, soft_wrap=True)
