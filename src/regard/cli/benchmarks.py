"""regard bench: what its commands share."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress
from rich.table import Table
from typer import Option

from regard.bench import Case
from regard.bench.machine import machine
from regard.bench.report import HEADINGS, cells, curves
from regard.bench.timing import QUICK, Effort
from regard.cli.app import OneLine, app, console, fail, stderr

bench = typer.Typer(cls=OneLine, rich_markup_mode="markdown")
app.add_typer(bench, name="bench", help="Measure regard against torch and other packages.")

Only = Annotated[
    list[str] | None, Option("--only", metavar="GROUP", help="Only this group; may be given several times.")
]
Quick = Annotated[bool, Option("--quick", help="Fewer rounds, no large sizes: a look, not a measurement.")]
AsJson = Annotated[bool, Option("--json", help="Print a list of objects: what, against, ratio, seconds, …")]
Plot = Annotated[
    Path | None, Option("--plot", metavar="FILE", help="Draw time and memory against n: .png, .svg or .pdf.")
]
RIGHT = ("rows × n", "support", "ours", "ratio")


def checked(only: list[str] | None, groups: list[str]) -> list[str]:
    """The groups asked for, or a complaint."""
    for name in only or ():
        if name not in groups:
            fail(f'no group "{name}". Known: {", ".join(groups)}.')
    return only or groups


def report(cases: list[Case], command: str, *, quick: bool, as_json: bool, plot: Path | None) -> None:
    """Measure the cases and say what came out."""
    if plot is not None:
        _can_plot(plot)
    screen, facts = stderr(), machine()
    screen.print("{processor}, {cores} cores, {threads} threads, torch {torch}".format(**facts))
    if float(facts["load"] or 0) > 1:
        screen.print(f"the machine is busy (load {facts['load']}): what is measured now means little")
    rows = [{**row, "command": command, **facts} for row in _measured(cases, QUICK if quick else Effort())]
    if as_json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    else:
        console(wide=150).print(_table(rows))
    if plot is not None and any(curves(rows).values()):
        from regard.views import growth, save

        screen.print(str(save(growth(**curves(rows)), plot)), soft_wrap=True)
    elif plot is not None:
        screen.print(f"nothing here was measured against n, so there is no {plot}", soft_wrap=True)


def _measured(cases: list[Case], effort: Effort) -> list[dict[str, Any]]:
    rows = []
    with Progress(console=stderr(), transient=True) as progress:
        task = progress.add_task("", total=len(cases))
        for case in cases:
            progress.update(task, description=" ".join(filter(None, (case.what, f"n={case.n}", case.scale))))
            rows.append(case.measure(effort).json())
            progress.advance(task)
    return rows


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in RIGHT else "left", overflow="fold")
    for row in rows:
        table.add_row(*cells(row), style="red" if row["held"] is False else None)
    return table


def _can_plot(plot: Path) -> None:
    """Complain before measuring, not after."""
    from regard.views.picture import check_file

    try:
        check_file(plot)
    except (ImportError, ValueError) as error:
        fail(error)
