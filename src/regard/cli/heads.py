"""regard heads: what each head of a trained encoder does, and how many of them it can do without."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text as Line
from typer import Option

from regard.analyses import HeadRoles, Pruned, gates_view, head_roles, roles_view, training_counts
from regard.analyses import prune as prune_heads
from regard.analyses.conllu import read_conllu
from regard.analyses.read_weights import self_attentions
from regard.analyses.tokenized import tokenize
from regard.cli.app import app, console, fail, plain_table
from regard.cli.common import Device, Run, check_picture, exit_on_error, open_run, progress_bar, save_picture
from regard.core.bridges import prefix_of
from regard.core.counting import counted
from regard.data.labelled import USUAL, labelled
from regard.data.text import lines
from regard.runs.fit import prepare

ROLES = """{named} of {all} heads have a role. After each score its baseline: chance, or, for \
subwords and syntax, the best fixed neighbour."""
WIDTHS = {"positional": 2, "syntactic": 8}  # characters for what a head does, where a role says it


@app.command()
@exit_on_error("regard heads")
def heads(
    run: Run,
    source: Path | None = Option(None, help="Sentences that the run reads, one per line (.gz too)."),
    data: Path | None = Option(
        None, metavar="FILE", help="Labelled texts, as those the run was trained on (.csv, .tsv, .jsonl)."
    ),
    conllu: Path | None = Option(None, help="Sentences with their trees (.gz too): adds syntactic heads."),
    prune: list[float] | None = Option(
        None, help="Prune heads, at this price each, and say what is left; may be given several times."
    ),
    steps: int = Option(500, min=1, help="Steps of training while pruning."),
    out: Path | None = Option(
        None, metavar="FILE", help="Draw the table, too: heads.html, or .png, .svg, .pdf."
    ),
    as_json: bool = Option(False, "--json", help="One JSON object per head, or per price with --prune."),
    device: Device = "auto",
) -> None:
    """Say what each head of the encoder in DIR does: each score stands beside what it takes no head to reach.

    positional: looks at the same neighbour. rare words: at the rarest token of the sentence. subwords: at the
    other pieces of the word. syntactic: at the head of the word (↑) or at a dependent (↓), by relation.

    Examples:

    - `regard heads runs/en-de --source valid.en`

    - `regard heads runs/sst --data dev.tsv`

    - `regard heads runs/en-de --conllu en_ewt-ud-dev.conllu`

    - `regard heads runs/en-de --conllu en_ewt-ud-dev.conllu --out heads.html`

    - `regard heads runs/en-de --prune 0.01 --prune 0.03`
    """
    check_picture(out)
    given = [name for name, file in (("--source", source), ("--data", data), ("--conllu", conllu)) if file]
    if not prune and len(given) != 1:
        got = " and ".join(given) or "none"
        fail(f"one of --source, --data and --conllu is needed, sentences to look at, or --prune; got {got}.")
    if prune and prefix_of(run):
        fail(f"--prune trains a run again on its own data; {run} is trained elsewhere.")
    if prune and given:
        fail(f"--prune goes without {given[0]}: it takes the data of the run.")
    draw: Any = gates_view if prune else roles_view
    if prune:
        found: Any = _prune(run, prune, steps, as_json, device)
    else:
        found = _roles(run, source, data, conllu, as_json, device)
    if out is not None:
        save_picture(draw(found), out, quiet=as_json)


def _roles(
    run: Path, source: Path | None, data: Path | None, conllu: Any, as_json: bool, device: str
) -> list[HeadRoles]:
    system = open_run(run, device)
    texts: list[Any]
    if data is not None:
        named = getattr(getattr(system.settings, "data", None), "named", USUAL)  # its columns, as in training
        texts = [one.text for one in labelled(data, named)]
    else:
        texts = [*read_conllu(conllu)] if source is None else [*lines(source)]
    cut = tokenize(system.tokenizer, texts)
    with progress_bar("reading", len(cut)) as listen:
        found = head_roles(system, cut, training_counts(run), listen)
    if as_json:
        for head in found:
            about = {"layer": head.layer + 1, "head": head.head + 1, "roles": head.roles}
            print(json.dumps({**about, "scores": asdict(head)["scores"]}, ensure_ascii=False))
        return found
    screen = console(100)
    screen.print(_roles_table(found, len(cut)))
    named = sum(bool(head.roles) for head in found)
    screen.print(ROLES.format(named=named, all=len(found)), style="dim")
    return found


def _prune(run: Path, prices: list[float], steps: int, as_json: bool, device: str) -> list[Pruned]:
    system = open_run(run, device)
    paths = self_attentions(system)
    problem = prepare(system.task, system.settings, run, str(system.device))[1]
    found = []
    for price in prices:
        with progress_bar(f"pruning at {price:g}", steps) as listen:
            found.append(prune_heads(system.model, problem, price, paths=paths, steps=steps, listen=listen))
        if as_json:
            facts = {fact: getattr(found[-1], fact) for fact in ("kept", "heads", "gates", "before", "after")}
            print(json.dumps({"price": price, **facts}))
    if not as_json:
        console(100).print(_pruned_table(found))
    return found


def _roles_table(found: list[HeadRoles], sentences: int) -> Table:
    """Heads down, roles across: where a head is farthest above its baseline, what it scores, and that."""
    roles = list(dict.fromkeys(role for head in found for role in head.scores))
    table = plain_table("head", *roles, no_wrap=True)
    table.title = counted(sentences, "sentence")
    for head in found:
        cells = [Line(f"{head.layer + 1}.{head.head + 1}", style="bold" if head.roles else "")]
        for role in roles:
            score = head.best(role)
            assert score is not None
            what = f"{score.what:<{WIDTHS[role]}} " if role in WIDTHS else ""
            style = "bold green" if score.plays else "dim"
            cells.append(Line(f"{what}{score.score:.2f} / {score.baseline:.2f}", style=style))
        table.add_row(*cells)
    return table


def _pruned_table(found: list[Pruned]) -> Table:
    """Prices down: how many heads are kept, how well the run still does, and which heads, by layer."""
    table = plain_table("price", "heads", "loss", "accuracy", "open, by layer", no_wrap=True)
    rows = [("before", found[0].heads, found[0].before, "")]
    for one in found:
        layers = " ".join("".join("█" if gate > 0 else "·" for gate in gates) for gates in one.gates.values())
        rows.append((f"{one.penalty:g}", one.kept, one.after, layers))
    for price, heads, figures, layers in rows:
        table.add_row(price, str(heads), f"{figures['loss']:.3f}", f"{figures['accuracy']:.3f}", layers)
    return table
