"""regard evaluate: how good the translations of a run are."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from rich.progress import Progress
from rich.table import Table
from typer import Argument, Option

from regard.cli.app import app, aside, complain, console
from regard.cli.train import chosen
from regard.core.errors import RunError, SettingsError, WeightsError

Run = Annotated[Path, Argument(metavar="DIR", help="The folder of a trained run.")]
Source = Annotated[Path, Option(help="Sentences (.gz too), or pairs in one .tsv or .jsonl.")]
Target = Annotated[Path | None, Option(help="Their translations.")]
Beam = Annotated[int | None, Option(help="Width of the beam; 1 is greedy.")]
Alpha = Annotated[float | None, Option(help="Length penalty.")]
AsJson = Annotated[bool, Option("--json", help="One object: bleu, chrf, exact_match, by_length …")]
Device = Annotated[str, Option(help="auto, cpu, cuda or mps.")]


@app.command()
def evaluate(
    run: Run,
    source: Source,
    target: Target = None,
    beam: Beam = None,
    alpha: Alpha = None,
    as_json: AsJson = False,
    device: Device = "auto",
) -> None:
    """Translate sentences and compare with their translations: BLEU, chrF, exact match, BLEU by length.

    With a beam, it is also reported how many sentences are less likely than their greedy translation.

    Example: `regard evaluate runs/en-de --source test.en --target test.de --json`
    """
    from regard.data.text import pairs
    from regard.runs import load
    from regard.tasks import quality

    try:
        wanted = list(pairs(source, target))
        system = load(run, chosen(device))
        sources = [text for text, _ in wanted]
        with Progress(console=aside(), transient=True) as progress:
            task = progress.add_task("translating", total=len(sources))
            found = []
            for start in range(0, len(sources), 500):
                found += system.translate(sources[start : start + 500], beam=beam, alpha=alpha)
                progress.update(task, completed=len(found))
        scores: dict[str, Any] = asdict(
            quality(sources, [t.text for t in found], [text for _, text in wanted])
        )
        width = system.decoding.beam if beam is None else beam
        scores["beam"] = width
        if width > 1:
            greedy = system.translate(sources, beam=1)
            below = sum(a.log_prob < b.log_prob - 1e-6 for a, b in zip(found, greedy, strict=True))
            scores["below_greedy"] = below / len(found)
    except (RunError, SettingsError, WeightsError, ImportError, ValueError) as error:
        complain(error)
    if as_json:
        print(json.dumps(scores, ensure_ascii=False))
        return
    screen = console()
    screen.print(
        f"BLEU {scores['bleu']:.2f}, chrF {scores['chrf']:.2f}, exact match {scores['exact_match']:.3f} "
        f"on {scores['sentences']:,} sentences, beam {width}",
        soft_wrap=True,
    )
    if "below_greedy" in scores:
        screen.print(f"less likely than the greedy translation: {scores['below_greedy']:.1%} of sentences")
    screen.print(scores["signature"], soft_wrap=True)
    screen.print(by_length(scores["by_length"]))


def by_length(groups: dict[str, dict[str, float]]) -> Table:
    """Scores by the length of the source, as a table."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("words", "sentences", "BLEU", "exact match"):
        table.add_column(heading, justify="right")
    for words, group in groups.items():
        cells = [words, f"{group['sentences']:,}", f"{group['bleu']:.1f}", f"{group['exact_match']:.3f}"]
        table.add_row(*cells)
    return table
