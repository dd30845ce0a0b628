"""regard audit: may the attention of a run be shown as the reason of what it says?"""

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from typer import Argument, Exit, Option

from regard.cli.app import app, aside, complain, console
from regard.cli.train import chosen
from regard.core.errors import RunError, SettingsError, WeightsError

if TYPE_CHECKING:
    from regard.audits import Case
    from regard.audits.plan import Plan
    from regard.audits.report import Report

Runs = Annotated[list[Path] | None, Argument(metavar="[DIR]...", help="Folders of trained runs.")]
Data = Annotated[Path | None, Option(metavar="FILE", help="Labelled texts to audit on: .tsv or .jsonl.")]
Train = Annotated[
    Path | None, Option(metavar="FILE", help="Texts to train on, for tests that train again. Minutes.")
]
Source = Annotated[
    Path | None, Option(help="Of a translator: sentences (.gz too), or pairs in one .tsv or .jsonl.")
]
Target = Annotated[Path | None, Option(help="Their translations; without them, the run's own.")]
Gold = Annotated[Path | None, Option(help="Links between words of source and target: alignment error too.")]
Quick = Annotated[bool, Option("--quick", help="At most 500 texts, and nothing is trained.")]
Html = Annotated[Path | None, Option(metavar="FILE", help="The report, for people.")]
Json = Annotated[Path | None, Option("--json", metavar="FILE", help="The report, for programs.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace reports that are there already.")]
Seed = Annotated[int, Option(help="Of whatever is drawn at random.")]
SelfTest = Annotated[bool, Option("--self-test", help="Audit models whose truth is known, and say how well.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or mps.")]


@dataclass(frozen=True)
class Wish:
    """What was typed, besides the run."""

    data: Path | None
    train: Path | None
    source: Path | None
    target: Path | None
    gold: Path | None
    quick: bool
    overwrite: bool
    seed: int
    device: str


@app.command()
def audit(
    runs: Runs = None,
    data: Data = None,
    train: Train = None,
    source: Source = None,
    target: Target = None,
    gold_alignments: Gold = None,
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

    - `regard audit runs/demo --source test.en --target test.de --quick --html report.html`
    """
    if self_test:
        return test_itself()
    if not runs:
        complain("a run is needed, or --self-test.")
    for file, ending in ((html, ".html"), (json_, ".json")):
        if file is not None and file.suffix != ending:
            complain(f"{file} must end in {ending}.")
        if file is not None and file.exists() and not overwrite:
            complain(f"{file} is there already, and a report is not overwritten: give --overwrite.")
    wish = Wish(data, train, source, target, gold_alignments, quick, overwrite, seed, chosen(device))
    try:
        for run in runs:
            not_yet(run, wish)
        reports = [audited(run, wish) for run in runs]
        write(reports, html, json_)
    except (RunError, SettingsError, WeightsError, ImportError, ValueError) as error:
        complain(error)
    except OSError as error:
        complain(error)
    except KeyboardInterrupt:
        aside().print("stopped; the same command goes on from here")
        raise Exit(130) from None
    show(reports)


def not_yet(run: Path, wish: Wish) -> None:
    """Refuse a folder that is not there, or has its report: before any of several runs is audited."""
    from regard.audits.folder import FOLDER

    if not run.is_dir():
        raise RunError(f"there is no folder {run}.")
    there = run / FOLDER / f"{'quick' if wish.quick else 'full'}.json"
    if there.exists() and not wish.overwrite:
        raise RunError(f"{there} is there already, and a report is not overwritten: give --overwrite.")


def audited(run: Path, wish: Wish) -> "Report":
    """The report of one run, with a bar while it is made."""
    from regard.audits.folder import audit_run

    case, what = case_of(run, wish)
    names: dict[str, str] = {}  # of the test that comes after each
    with Progress(
        TextColumn("{task.description:28}"), BarColumn(), TimeElapsedColumn(), console=aside(), transient=True
    ) as progress:
        task = progress.add_task("planning")

        def tell(planned: "Plan") -> None:
            for line in plan_lines(planned, run):
                progress.console.print(line, soft_wrap=True, markup=False)
            tests = [test.name.replace("_", " ") for test in planned.tests]
            names.update(zip((test.name for test in planned.tests), [*tests[1:], "report"], strict=True))
            progress.update(task, total=len(tests), description=tests[0])

        def listen(name: str, _: Any) -> None:
            progress.update(task, advance=1, description=names[name])

        return audit_run(run, case, what, quick=wish.quick, seed=wish.seed, tell=tell, listen=listen)


def case_of(run: Path, wish: Wish) -> "tuple[Case, str]":
    """What is audited, and the texts it is about as one string."""
    from regard.alignment import load
    from regard.audits.of_run import of_texts
    from regard.audits.trained_run import of_run
    from regard.data.labelled import labelled
    from regard.runs import Translator
    from regard.runs.fit_classifier import is_classifier, load_classifier

    if is_classifier(run):
        if wish.data is None:
            raise RunError(f"{run} holds a classifier: --data, labelled texts to audit on, is needed.")
        system = load_classifier(run, wish.device)
        texts = [
            system.classes.check(text, f"{wish.data}, text {i}")
            for i, text in enumerate(labelled(wish.data), 1)
        ]
        again = None if wish.train is None else of_run(run, system, wish.train)
        learned = None if wish.train is None else sha256(wish.train.read_bytes()).hexdigest()
        return of_texts(system, texts, train=again), repr((texts, learned))
    other = load(run, wish.device)
    if not isinstance(other, Translator):
        raise RunError(f"{run} holds an aligner: audits are for classifiers and translators.")
    if wish.source is None:
        raise RunError(f"{run} holds a translator: --source, sentences to audit on, is needed.")
    return of_translator(other, wish)


def of_translator(system: Any, wish: Wish) -> "tuple[Case, str]":
    """The case of a translator: pairs from files, or its own translations."""
    from regard.alignment.formats import read
    from regard.audits.of_pairs import of_pairs
    from regard.data.text import DataError, lines, pairs

    assert wish.source is not None
    found: list[tuple[str, str | None]]
    if wish.target is None and not {".tsv", ".jsonl"} & set(wish.source.suffixes):
        found = [(line, None) for line in lines(wish.source)]
    else:
        found = list(pairs(wish.source, wish.target))
    links = None
    if wish.gold is not None:
        if any(target is None for _, target in found):
            raise RunError("--gold-alignments need --target: gold links are between given sentences.")
        sizes = [(len(one.split()), len((other or "").split())) for one, other in found]
        links = read(wish.gold, sizes, gold=True)
        if len(links) > len(found):
            raise DataError(f"{wish.gold} has {len(links):,} sentences, and there are {len(found):,}.")
    return of_pairs(system, found, gold=links, seed=wish.seed), repr((found, links))


def plan_lines(planned: "Plan", run: Path) -> list[str]:
    """What will be done, in how long, and what not."""
    total = planned.total
    took = f"{max(total, 1):.0f} seconds" if total < 90 else f"{total / 60:.0f} minutes"
    lines = [f"{run}: {len(planned.tests)} tests, about {took}"]
    by_reason: dict[str, list[str]] = {}
    for name, why in planned.left_out.items():
        by_reason.setdefault(why, []).append(name.replace("_", " "))
    return lines + [f"left out: {', '.join(names)} ({why})" for why, names in by_reason.items()]


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

    screen, single = console(), len(reports) == 1
    for report in reports:
        screen.print(report.answer, markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("condition", "test"):
        table.add_column(heading)
    for heading in ["value", "yardstick", "score"] if single else [_short(report) for report in reports]:
        table.add_column(heading, justify="right")
    for name in in_order(AUDITS):
        found = [report.tests.get(name) for report in reports]
        if not any(one is not None and one.value is not None for one in found):
            continue
        cells = [_figure(None if one is None else one.value) for one in found]
        if single and found[0] is not None:
            graded = score(name, found[0]) if AUDITS[name].condition else None
            cells += [_figure(found[0].yardstick), "" if graded is None else f"{graded:.2f}"]
        table.add_row(AUDITS[name].condition or "", name.replace("_", " "), *cells)
    screen.print(table)


def _short(report: "Report") -> str:
    return report.name.removeprefix("the attention of ")


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def test_itself() -> None:
    """Audit planted models and print how well their groups are told apart."""
    from regard.audits.calibration import graded
    from regard.audits.planted import KINDS, self_test

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("planted model", "truth", "grade"):
        table.add_column(heading, justify="right" if heading == "grade" else "left")
    with Progress(
        TextColumn("{task.description:28}"), BarColumn(), TimeElapsedColumn(), console=aside(), transient=True
    ) as progress:
        task = progress.add_task("planted models", total=len(KINDS))

        def listen(result: Any) -> None:
            truth = {True: "faithful", False: "unfaithful", None: "to be measured"}[result.faithful]
            table.add_row(result.kind, truth, f"{graded(result.grade()):.2f}")
            progress.update(task, advance=1, description=result.kind)

        found = self_test(listen=listen)
    screen = console()
    screen.print(table)
    wrong = ", ".join(f"{result.kind} (seed {result.seed})" for result in found.misjudged) or "none"
    screen.print(
        f"AUC {found.auc:.3f} of faithful against unfaithful models (0.95 is asked for); on the wrong side "
        f"of one half: {wrong}",
        soft_wrap=True,
        markup=False,
    )
    if not found.passed:
        raise Exit(1)
