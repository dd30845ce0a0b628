"""regard heads: what each head of a trained encoder does, and how many of them it can do without."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.progress import Progress
from rich.table import Table
from rich.text import Text as Line
from typer import Argument, Option

from regard.cli.app import app, aside, complain, console
from regard.cli.train import chosen
from regard.core.errors import RunError, SettingsError, UnknownNameError, WeightsError

if TYPE_CHECKING:
    from regard.analyses import Head, Pruned, Sentence

Run = Annotated[Path, Argument(metavar="DIR", help="The folder of a trained run.")]
Source = Annotated[Path | None, Option(help="Sentences that the run reads, one per line (.gz too).")]
Conllu = Annotated[Path | None, Option(help="Sentences with their trees (.gz too): adds syntactic heads.")]
Prune = Annotated[
    list[float] | None,
    Option(help="Prune heads, at this price each, and say what is left; may be given several times."),
]
Steps = Annotated[int, Option(min=1, help="Steps of training while pruning.")]
AsJson = Annotated[bool, Option("--json", help="One JSON object per head, or per price with --prune.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or mps.")]


@app.command()
def heads(
    run: Run,
    source: Source = None,
    conllu: Conllu = None,
    prune: Prune = None,
    steps: Steps = 500,
    as_json: AsJson = False,
    device: Device = "auto",
) -> None:
    """Say what each head of the encoder in DIR does: each score stands beside what it takes no head to reach.

    positional: looks at the same neighbour. rare words: at the rarest token of the sentence. subwords: at the
    other pieces of the word. syntactic: at the head of the word (↑) or at a dependent (↓), by relation.

    Examples:

    - `regard heads runs/en-de --source valid.en`

    - `regard heads runs/en-de --conllu en_ewt-ud-dev.conllu`

    - `regard heads runs/en-de --prune 0.01 --prune 0.03`
    """
    try:
        if not prune and (source is None) == (conllu is None):
            complain("either --source or --conllu is needed, sentences to look at; or --prune.")
        if prune and (source or conllu):
            complain("--prune goes without --source and --conllu: it takes the data of the run.")
        if prune:
            _prune(run, prune, steps, as_json, chosen(device))
        else:
            _roles(run, source, conllu, as_json, chosen(device))
    except (RunError, SettingsError, WeightsError, UnknownNameError, ImportError, ValueError) as error:
        complain(error)


def _roles(run: Path, source: Path | None, conllu: Path | None, as_json: bool, device: str) -> None:
    from regard.analyses import head_roles, passages, read_conllu, tokenizer_of
    from regard.data.text import lines

    texts: list[str | Sentence]
    if conllu is not None:
        texts = [*read_conllu(conllu)]
    else:
        assert source is not None
        texts = [*lines(source)]
    system = load_any(run, device)
    cut = passages(tokenizer_of(system), texts)
    with progress("reading", len(cut)) as listen:
        found = head_roles(system, cut, trained_counts(run), listen)
    if as_json:
        for head in found:
            print(json.dumps(as_dict(head), ensure_ascii=False))
        return
    screen = console(100)
    screen.print(table(found, len(cut)))
    named = [head for head in found if head.roles]
    screen.print(
        f"{len(named)} of {len(found)} heads have a role. After each score its yardstick: chance, or, for "
        "subwords and syntax, the best fixed neighbour.",
        style="dim",
    )


def load_any(run: Path, device: str) -> Any:
    """The translator or classifier in a folder."""
    from regard.runs import load
    from regard.runs.fit_classifier import is_classifier, load_classifier

    return load_classifier(run, device) if run.is_dir() and is_classifier(run) else load(run, device)


def trained_counts(run: Path) -> Mapping[int, int] | None:
    """How often each token occurs in the texts that a run was trained on, if it still has them."""
    import numpy as np

    from regard.data import Encoded
    from regard.data.text import DataError

    try:
        counts = np.bincount(Encoded.open(run / "cache" / "train").source)
    except DataError:
        return None
    return Counter({token: int(count) for token, count in enumerate(counts) if count})


@contextmanager
def progress(what: str, total: float) -> Iterator[Any]:
    """A bar that is told how far it is."""
    with Progress(console=aside(), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def as_dict(head: "Head") -> dict[str, Any]:
    """A head as JSON has it; layers and heads count from 1."""
    scores = {role: [vars(score) for score in scores] for role, scores in head.scores.items()}
    return {"layer": head.layer + 1, "head": head.head + 1, "roles": head.roles, "scores": scores}


def table(found: "list[Head]", sentences: int) -> Table:
    """Heads down, roles across: where a head is farthest above its yardstick, what it scores, and that."""
    roles = list(dict.fromkeys(role for head in found for role in head.scores))
    drawn = Table(
        title=f"{sentences:,} sentences",
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="bold",
        padding=(0, 2, 0, 0),
    )
    for name in ("head", *roles):
        drawn.add_column(name, no_wrap=True)
    for head in found:
        cells = [Line(f"{head.layer + 1}.{head.head + 1}", style="bold" if head.roles else "")]
        for role in roles:
            score = head.best(role)
            assert score is not None
            what = (
                ""
                if role in ("rare words", "subwords")
                else f"{score.what:<{8 if role == 'syntactic' else 2}} "
            )
            style = "bold green" if score.plays else "dim"
            cells.append(Line(f"{what}{score.score:.2f} / {score.yardstick:.2f}", style=style))
        drawn.add_row(*cells)
    return drawn


def _prune(run: Path, prices: list[float], steps: int, as_json: bool, device: str) -> None:
    from regard.analyses import prune
    from regard.runs.fit import prepare
    from regard.runs.fit_classifier import is_classifier
    from regard.runs.folder import read_settings

    if run.is_dir() and is_classifier(run):
        raise RunError(f"{run} holds a classifier: --prune is for translators.")
    system = load_any(run, device)
    task = prepare(read_settings(run), run, device)[1]
    found = []
    for price in prices:
        with progress(f"pruning at {price:g}", steps) as listen:
            found.append(prune(system.model, task, price, steps=steps, listen=listen))
        if as_json:
            one = found[-1]
            print(json.dumps({"price": price, "kept": one.kept, "heads": one.heads, "gates": one.gates,
                              "before": one.before, "after": one.after}))  # fmt: skip
    if not as_json:
        console(100).print(pruned_table(found))


def pruned_table(found: "list[Pruned]") -> Table:
    """Prices down: how many heads are kept, how well the run still does, and which heads, by layer."""
    drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("price", "heads", "loss", "accuracy", "open, by layer"):
        drawn.add_column(name, no_wrap=True)
    before = found[0].before
    drawn.add_row("before", str(found[0].heads), f"{before['loss']:.3f}", f"{before['accuracy']:.3f}", "")
    for one in found:
        layers = " ".join("".join(_gate(gate) for gate in gates) for gates in one.gates.values())
        after = one.after
        drawn.add_row(
            f"{one.penalty:g}", str(one.kept), f"{after['loss']:.3f}", f"{after['accuracy']:.3f}", layers
        )
    return drawn


def _gate(gate: float) -> str:
    return "█" if gate > 0 else "·"
