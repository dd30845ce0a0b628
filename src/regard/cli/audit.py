"""regard audit: may the attention of a run be shown as the reason for its predictions?"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from typer import Argument, Exit, Option

from regard.cli.app import app, console, fail, os_error, plain_table, remark, say
from regard.cli.common import Device, exit_on_error, open_run, progress_bar
from regard.cli.task_options import ByTask, given, split
from regard.core.counting import counted
from regard.core.errors import RunError
from regard.core.files import write_text
from regard.core.settings import fields_of

if TYPE_CHECKING:
    from regard.audits.examine import Plan
    from regard.audits.report import Report

COLUMNS = TextColumn("{task.description:28}"), BarColumn(), TimeElapsedColumn()


@app.command(cls=ByTask, context_settings={"ignore_unknown_options": True}, options_metavar="[OPTIONS]")
def audit(
    arguments: list[str] | None = Argument(
        None, metavar="DIR [OPTIONS OF ITS TASK]", help="Folders of trained runs."
    ),
    quick: bool = Option(
        False, "--quick", help="At most 500 texts, fewer of large models; nothing is trained."
    ),
    html: Path | None = Option(None, metavar="FILE", help="The report, for people who build models."),
    plain: Path | None = Option(None, metavar="FILE", help="The same for everyone else: one page, no terms."),
    json_: Path | None = Option(None, "--json", metavar="FILE", help="The report, for programs."),
    overwrite: bool = Option(False, "--overwrite", help="Replace reports that are there already."),
    seed: int = Option(0, help="Of whatever is drawn at random."),
    self_test: bool = Option(False, "--self-test", help="Audit models whose faithfulness is known."),
    device: Device = "auto",
) -> None:
    """Say whether the attention of the run in DIR is evidence of what the run used, and how sure that is.

    The answer is a sentence and a grade from 0 to 1, by three conditions: decisions need the weights, other
    weights do not give the same predictions, and the words of high weight matter by themselves. A report
    stays in DIR/audit. An audit that was stopped goes on with the same command. Several runs are compared.

    Examples:

    - `regard audit runs/sst --data test.tsv --quick --html report.html --plain leaflet.html`

    - `regard audit runs/sst --data test.tsv --train train.tsv --html report.html --json report.json`

    - `regard audit runs/softmax runs/entmax15 --data test.tsv --html compared.html`

    - `regard audit runs/demo --source test.en --target test.de --quick --html report.html`
    """
    if self_test:
        return test_itself()
    for file, ending in ((html, ".html"), (plain, ".html"), (json_, ".json")):
        if file is not None and file.suffix != ending:
            fail(f"{file} must end in {ending}.")
        if file is not None and file.exists() and not overwrite:
            fail(f"{file} is there already, and a report is not overwritten: give --overwrite.")
    with exit_on_error("regard audit"):
        runs, values = split(arguments or [])
        if not runs:
            fail("a run is needed, or --self-test.")
        try:
            for run in runs:
                check_folder(Path(run), quick, overwrite)
            reports = [audited(open_run(Path(run), device), values, quick, seed) for run in runs]
            write(reports, html, plain, json_)
        except OSError as error:
            fail(os_error(error) if error.filename else error)
        except KeyboardInterrupt:
            remark("stopped; the same command goes on from here")
            raise Exit(130) from None
    show(reports)


def check_folder(run: Path, quick: bool, overwrite: bool) -> None:
    """Refuse a folder that is not there, or has its report: before any of several runs is audited."""
    from regard.audits.audit_folder import FOLDER
    from regard.core.bridges import prefix_of

    if not run.is_dir() and not prefix_of(run):
        raise RunError(f"there is no folder {run}.")
    there = run / FOLDER / f"{'quick' if quick else 'full'}.json"
    if there.exists() and not overwrite:
        raise RunError(f"{there} is there already, and a report is not overwritten: give --overwrite.")


def audited(system: Any, values: dict[str, Any], quick: bool, seed: int) -> "Report":
    """The report of one run, with a bar while it is made; values are options of its task."""
    from regard.audits.audit_folder import audit_run

    kind, options = system.task.Audit, None
    if kind is not None:
        own = {"seed": seed} if "seed" in fields_of(kind) else {}
        options = given(kind, {**values, **own}, system.task.makes)
    case, what = system.audited(options)
    names: dict[str, str] = {}  # of the test that comes after each
    with progress_bar("planning", columns=COLUMNS) as show:

        def tell(planned: "Plan") -> None:
            for line in plan_lines(planned, system.folder):
                remark(line)
            tests = [test.name.replace("_", " ") for test in planned.tests]
            names.update(zip((test.name for test in planned.tests), [*tests[1:], "report"], strict=True))
            show(of=len(tests), description=tests[0])

        def listen(name: str, _: Any) -> None:
            show(advance=1, description=names[name])

        return audit_run(system.folder, case, what, quick=quick, seed=seed, tell=tell, listen=listen)


def plan_lines(planned: "Plan", run: Path) -> list[str]:
    """What will be done, in how long, and what not."""
    total = planned.total
    took = counted(round(max(total, 1)), "second") if total < 90 else counted(round(total / 60), "minute")
    lines = [f"{run}: {counted(len(planned.tests), 'test')}, about {took}"]
    by_reason: dict[str, list[str]] = {}
    for name, why in planned.left_out.items():
        by_reason.setdefault(why, []).append(name.replace("_", " "))
    return lines + [f"left out: {', '.join(names)} ({why})" for why, names in by_reason.items()]


def write(reports: "list[Report]", html: Path | None, plain: Path | None, json_: Path | None) -> None:
    """Write the files that were asked for."""
    from regard.audits.plain_page import plain_page
    from regard.audits.report_page import page

    for file, made in ((html, page), (plain, plain_page)):
        if file is not None:
            write_text(file, made(reports))
    if json_ is not None:
        found = [report.as_dict() for report in reports]
        what = found[0] if len(found) == 1 else found
        write_text(json_, json.dumps(what, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def show(reports: "list[Report]") -> None:
    """Print answers, and a table of figures with a column for each run."""
    from regard.audits.register import AUDITS, in_order
    from regard.audits.verdict import score

    screen, single = console(), len(reports) == 1
    for report in reports:
        screen.print(report.answer, markup=False)
    names = [report.name.removeprefix("the attention of ") for report in reports]
    columns = ["value", "baseline", "score"] if single else names
    table = plain_table("condition", "test", *columns, right=columns)
    for name in in_order(AUDITS):
        found = [report.tests.get(name) for report in reports]
        if not any(one is not None and one.value is not None for one in found):
            continue
        cells = [_figure(None if one is None else one.value) for one in found]
        if single and found[0] is not None:
            grade = score(name, found[0]) if AUDITS[name].condition else None
            shown = "" if grade is None else f"{'≤ ' if AUDITS[name].gate else ''}{grade:.2f}"
            cells += [_figure(found[0].baseline), shown]
        table.add_row(AUDITS[name].condition or "", name.replace("_", " "), *cells)
    if table.row_count:
        screen.print(table)


def test_itself() -> None:
    """Audit planted models and print how well faithful and unfaithful ones are separated."""
    from regard.audits import planted

    table = plain_table("planted model", "truth", "grade", right=["grade"])
    with progress_bar("planted models", len(planted.KINDS), COLUMNS) as show:

        def listen(result: Any) -> None:
            truth = {True: "faithful", False: "unfaithful", None: "to be measured"}[result.faithful]
            table.add_row(result.kind, truth, f"{planted.graded(result.grade()):.2f}")
            show(advance=1, description=result.kind)

        found = planted.self_test(listen=listen)
    console().print(table)
    wrong = ", ".join(f"{result.kind} (seed {result.seed})" for result in found.misjudged) or "none"
    say(
        f"AUC {found.auc:.3f} of faithful against unfaithful models (0.95 is required); on the wrong side "
        f"of one half: {wrong}"
    )
    if not found.passed:
        raise Exit(1)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
