"""regard arena: mechanisms of attention on tasks of long sequences; see `bench/arena_runs.py`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from regard.cli.app import app, console, fail, plain_table, remark
from regard.cli.common import Threads, check_picture, exit_on_error, progress_bar, save_picture

if TYPE_CHECKING:
    from regard.bench.arena_runs import Row


@app.command()
def arena(
    tasks: str = Option(
        "all", metavar="A,B,…", help="listops, bytes, retrieval, pixels, pathfinder; or all."
    ),
    mechanisms: str = Option("all", metavar="A,B,…", help="Mechanisms, as local or local:window=16; or all."),
    minutes: float = Option(5.0, metavar="M", help="That each row may take; all do as many steps."),
    pretrain: bool = Option(
        False, "--pretrain", help="Denoise the task's own inputs first, a third of the time."
    ),
    both: bool = Option(False, "--both", help="Every row with pretraining and without."),
    data: Annotated[
        list[str] | None,
        Option("--data", metavar="TASK=FILE", help="Examples from a file, as listops=test.tsv; repeatable."),
    ] = None,
    audit: bool = Option(False, "--audit", help="Audit the attention of every row, quickly."),
    out: Path = Option(
        Path("arena"), "--out", metavar="DIR", help="Rows and models; what is there is not done again."
    ),
    seed: int = Option(0, help="Of examples and first weights."),
    threads: Threads = None,
    plot: Path | None = Option(
        None, "--plot", metavar="FILE", help="Accuracy against bytes; dots are as large as steps are fast."
    ),
    as_json: bool = Option(False, "--json", help="Print a list of objects, one for each row."),
) -> None:
    """Compare mechanisms of attention on long sequences: accuracy, time, memory, FLOPs.

    Equal width, depth and steps. Tasks are generated unless --data names a file; one of ListOps is the test
    set, others are split. A run that was stopped goes on: rows that --out has are not done again. All
    mechanisms on all tasks are 60 rows: up to five hours with --minutes 5, twice that with --both.

    Examples:

    - `regard arena --tasks listops --mechanisms full,local,performer --minutes 10 --pretrain`

    - `regard arena --tasks listops --data listops=test_d8.tsv.gz --both --plot arena.svg`

    - `regard arena --tasks pixels --data pixels=train-images-idx3-ubyte.gz --audit --json`
    """
    with exit_on_error("regard arena"):
        check_picture(plot, page=False)
        if not minutes > 0:
            raise ValueError(f"--minutes must be above 0; got {minutes:g}.")
        import torch

        from regard.bench.arena_runs import known_mechanisms, run, spelled
        from regard.bench.arena_training import ArenaSettings
        from regard.data.long_range import LONG_TASKS

        if threads is not None:
            torch.set_num_threads(threads)
        files = {}
        for given in data or ():
            name, found, file = given.partition("=")
            if not found or not file:
                raise ValueError(f"--data must be TASK=FILE, as listops=test.tsv; got {given!r}.")
            LONG_TASKS[name]
            if not Path(file).is_file():
                raise ValueError(f"{file}: there is no such file.")
            files[name] = Path(file)
        names = list(LONG_TASKS) if tasks == "all" else tasks.split(",")
        for name in names:
            LONG_TASKS[name]
        chosen = known_mechanisms() if mechanisms == "all" else mechanisms.split(",")
        for name in chosen:
            spelled(name)
        if out.exists() and not out.is_dir():
            raise ValueError(f"{out} is a file: --out must be a folder.")
        rows: list[Row] = []
        variants = (False, True) if both else (pretrain,)
        with progress_bar("", len(names) * len(chosen) * len(variants)) as show:
            for row in run(
                names, chosen, minutes, out, pretrain=variants, files=files, audit=audit,
                settings=ArenaSettings(seed=seed), tell=lambda what: show(description=what),
            ):  # fmt: skip
                rows.append(row)
                show(len(rows))
    if not rows:
        fail("there is nothing to compare.")
    if as_json:
        print(json.dumps([row.json() for row in rows], indent=1, ensure_ascii=False))
    else:
        _print(rows)
    if plot is not None:
        save_picture(_picture(rows), plot, quiet=True)
        remark(plot)


def _print(rows: "list[Row]") -> None:
    from regard.bench.arena_runs import best, fewer_steps

    right = ("accuracy", "chance", "steps", "ms a step", "MiB", "GFLOP", "minutes")
    table = plain_table("task", "mechanism", "pretrained", *right, "audit", right=right)
    for row in rows:
        graded = "" if row.audit is None or row.audit["grade"] is None else f"{row.audit['grade']:.2f}"
        table.add_row(
            row.task, row.mechanism, "yes" if row.pretrained else "no", f"{row.accuracy:.3f}",
            f"{row.chance:.2f}", f"{row.steps:,}", f"{row.seconds_per_step * 1e3:.0f}",
            f"{row.bytes / 2**20:.0f}", f"{row.flops / 1e9:.2f}", f"{row.minutes:.1f}", graded,
        )  # fmt: skip
    console(wide=130).print(table)
    fewer = [f"{row.mechanism} on {row.task}" for row in fewer_steps(rows)]
    if fewer:
        remark(f"not all steps were done in the time, with: {', '.join(fewer)}")
    winners = best(rows)
    if len(winners) > 1:
        most = max(set(winners.values()), key=list(winners.values()).count)
        count = list(winners.values()).count(most)
        remark(f"{most} is best on {count} of {len(winners)} tasks")


def _picture(rows: "list[Row]") -> object:
    from regard.views.tradeoff import Candidate, tradeoff

    fastest = min(row.seconds_per_step for row in rows)
    panels: dict[str, list[Candidate]] = {}
    for row in rows:
        size = fastest / row.seconds_per_step
        panels.setdefault(row.task, []).append(
            Candidate(row.mechanism, row.bytes / 2**20, row.accuracy, size, row.pretrained)
        )
    levels = {row.task: row.chance for row in rows}
    return tradeoff(
        panels, "peak MiB of a step", "accuracy", levels, filled="pretrained", hollow="from scratch"
    )
