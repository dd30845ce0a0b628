"""regard heads: what each head of a trained encoder does, and how many of them it can do without."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from regard.cli.app import app, console, fail
from regard.cli.common import Device, progress_bar, resolve_device
from regard.cli.heads_table import pruned_table, table
from regard.core.errors import RunError, SettingsError, UnknownNameError, WeightsError

if TYPE_CHECKING:
    from regard.analyses import HeadRoles, Pruned, Sentence

Run = Annotated[Path, Argument(metavar="DIR", help="The folder of a trained run.")]
Source = Annotated[Path | None, Option(help="Sentences that the run reads, one per line (.gz too).")]
Conllu = Annotated[Path | None, Option(help="Sentences with their trees (.gz too): adds syntactic heads.")]
Prune = Annotated[
    list[float] | None,
    Option(help="Prune heads, at this price each, and say what is left; may be given several times."),
]
Steps = Annotated[int, Option(min=1, help="Steps of training while pruning.")]
Out = Annotated[
    Path | None, Option(metavar="FILE", help="Draw the table, too: heads.html, or .png, .svg, .pdf.")
]
AsJson = Annotated[bool, Option("--json", help="One JSON object per head, or per price with --prune.")]


@app.command()
def heads(
    run: Run,
    source: Source = None,
    conllu: Conllu = None,
    prune: Prune = None,
    steps: Steps = 500,
    out: Out = None,
    as_json: AsJson = False,
    device: Device = "auto",
) -> None:
    """Say what each head of the encoder in DIR does: each score stands beside what it takes no head to reach.

    positional: looks at the same neighbour. rare words: at the rarest token of the sentence. subwords: at the
    other pieces of the word. syntactic: at the head of the word (↑) or at a dependent (↓), by relation.

    Examples:

    - `regard heads runs/en-de --source valid.en`

    - `regard heads runs/en-de --conllu en_ewt-ud-dev.conllu`

    - `regard heads runs/en-de --conllu en_ewt-ud-dev.conllu --out heads.html`

    - `regard heads runs/en-de --prune 0.01 --prune 0.03`
    """
    from regard.cli.heads_view import gates_view, roles_view
    from regard.views.picture import check_file

    try:
        if out is not None:
            check_file(out)
        if not prune and (source is None) == (conllu is None):
            fail("either --source or --conllu is needed, sentences to look at; or --prune.")
        if prune and (source or conllu):
            fail("--prune goes without --source and --conllu: it takes the data of the run.")
        if prune:
            pruned = _prune(run, prune, steps, as_json, resolve_device(device))
            view = gates_view(pruned) if out else None
        else:
            found = _roles(run, source, conllu, as_json, resolve_device(device))
            view = roles_view(found) if out else None
        if out is not None:
            draw(view, out, as_json)
    except (RunError, SettingsError, WeightsError, UnknownNameError, ImportError, ValueError) as error:
        fail(error)


def draw(view: Any, out: Path, as_json: bool) -> None:
    """Write a picture, and say where."""
    try:
        view.save(out)
    except OSError as error:
        fail(f"{out} cannot be written: {error.strerror or error}.")
    if not as_json:
        console().print(str(out), soft_wrap=True, markup=False)


def _roles(
    run: Path, source: Path | None, conllu: Path | None, as_json: bool, device: str
) -> "list[HeadRoles]":
    from regard.analyses import head_roles, read_conllu, tokenize
    from regard.data.text import lines
    from regard.runs.load import open_system

    texts: list[str | Sentence]
    if conllu is not None:
        texts = [*read_conllu(conllu)]
    else:
        assert source is not None
        texts = [*lines(source)]
    system = open_system(run, device)
    cut = tokenize(system.tokenizer, texts)
    with progress_bar("reading", len(cut)) as listen:
        found = head_roles(system, cut, trained_counts(run), listen)
    if as_json:
        for head in found:
            print(json.dumps(as_dict(head), ensure_ascii=False))
        return found
    screen = console(100)
    screen.print(table(found, len(cut)))
    named = [head for head in found if head.roles]
    screen.print(
        f"{len(named)} of {len(found)} heads have a role. After each score its yardstick: chance, or, for "
        "subwords and syntax, the best fixed neighbour.",
        style="dim",
    )
    return found


def trained_counts(run: Path) -> Mapping[int, int] | None:
    """How often each token occurs in the texts that a run was trained on, if it still has them."""
    import numpy as np

    from regard.data import Encoded
    from regard.data.text import DataError
    from regard.runs.folder import CACHE

    try:
        encoded = Encoded.open(run / CACHE / "train")
        counts = np.bincount(encoded.values[encoded.ragged[0]])  # of the text that is read
    except DataError:
        return None
    return Counter({token: int(count) for token, count in enumerate(counts) if count})


def as_dict(head: "HeadRoles") -> dict[str, Any]:
    """A head as JSON has it; layers and heads count from 1."""
    scores = {role: [vars(score) for score in scores] for role, scores in head.scores.items()}
    return {"layer": head.layer + 1, "head": head.head + 1, "roles": head.roles, "scores": scores}


def _prune(run: Path, prices: list[float], steps: int, as_json: bool, device: str) -> "list[Pruned]":
    from regard.analyses import prune
    from regard.analyses.reading import self_attentions
    from regard.runs.fit import prepare
    from regard.runs.load import open_system

    system = open_system(run, device)
    paths = self_attentions(system)
    problem = prepare(system.task, system.settings, run, device)[1]
    found = []
    for price in prices:
        with progress_bar(f"pruning at {price:g}", steps) as listen:
            found.append(prune(system.model, problem, price, paths=paths, steps=steps, listen=listen))
        if as_json:
            one = found[-1]
            print(json.dumps({"price": price, "kept": one.kept, "heads": one.heads, "gates": one.gates,
                              "before": one.before, "after": one.after}))  # fmt: skip
    if not as_json:
        console(100).print(pruned_table(found))
    return found
