"""regard evaluate: how good the translations of a run are, and how good its alignments."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.progress import Progress
from rich.table import Table
from typer import Argument, Option

from regard.cli.app import app, aside, complain, console
from regard.cli.evaluate_classification import evaluate_classification
from regard.cli.train import chosen
from regard.core.errors import RunError, SettingsError, WeightsError

if TYPE_CHECKING:
    from regard.alignment import Aligner
    from regard.runs import Translator

Run = Annotated[Path, Argument(metavar="DIR", help="The folder of a trained run.")]
Source = Annotated[Path | None, Option(help="Sentences (.gz too), or pairs in one .tsv or .jsonl.")]
Target = Annotated[Path | None, Option(help="Their translations.")]
Beam = Annotated[int | None, Option(help="Width of the beam; 1 is greedy.")]
Alpha = Annotated[float | None, Option(help="Length penalty.")]
Gold = Annotated[Path | None, Option(help="Links between the words of source and target: adds aer.")]
Base = Annotated[int | None, Option(min=0, max=1, help="What gold links count from, if they do not tell.")]
Data = Annotated[Path | None, Option(help="Labelled texts (.tsv or .jsonl), for a classifier.")]
AsJson = Annotated[bool, Option("--json", help="One object: bleu, chrf, exact_match, by_length …")]
Device = Annotated[str, Option(help="auto, cpu, cuda or mps.")]


@app.command()
def evaluate(
    run: Run,
    source: Source = None,
    target: Target = None,
    beam: Beam = None,
    alpha: Alpha = None,
    gold_alignments: Gold = None,
    base: Base = None,
    data: Data = None,
    as_json: AsJson = False,
    device: Device = "auto",
) -> None:
    """Say how good a run is, on sentences and their translations or on labelled texts.

    Of a translator: BLEU, chrF, exact match, BLEU by length. Of a classifier (--data): accuracy, macro F1,
    log loss, and precision and recall of each class.

    With a beam, it is also reported how many sentences are less likely than their greedy translation. With
    gold alignments (Pharaoh's or NAACL's format), the links that `regard align` finds are compared with them:
    alignment error rate, precision, recall. Of an aligner, these alone are reported.

    Examples:

    - `regard evaluate runs/en-de --source test.en --target test.de --json`

    - `regard evaluate runs/sst --data test.tsv`
    """
    from regard.alignment import load
    from regard.data.text import pairs
    from regard.runs import Translator
    from regard.runs.fit_classifier import is_classifier

    try:
        if is_classifier(run):
            return evaluate_classification(run, data, as_json, chosen(device))
        if not run.is_dir():
            raise RunError(f"there is no folder {run}.")
        if source is None:
            raise RunError(f"{run} holds no classifier: --source, the sentences to evaluate on, is needed.")
        wanted = list(pairs(source, target))
        system = load(run, chosen(device))
        translates = isinstance(system, Translator)
        if not translates and gold_alignments is None:
            raise RunError(f"{run} holds an aligner: --gold-alignments is needed to evaluate it.")
        scores = alignments(system, wanted, gold_alignments, base) if gold_alignments else {}
        if translates:
            scores = {**translations(system, wanted, beam, alpha), **scores}
    except (RunError, SettingsError, WeightsError, ImportError, ValueError) as error:
        complain(error)
    if as_json:
        print(json.dumps(scores, ensure_ascii=False))
        return
    screen = console()
    if translates:
        screen.print(
            f"BLEU {scores['bleu']:.2f}, chrF {scores['chrf']:.2f}, exact match {scores['exact_match']:.3f} "
            f"on {scores['sentences']:,} sentences, beam {scores['beam']}",
            soft_wrap=True,
        )
        if "below_greedy" in scores:
            share = f"{scores['below_greedy']:.1%}"
            screen.print(f"less likely than the greedy translation: {share} of sentences")
        screen.print(scores["signature"], soft_wrap=True)
        screen.print(by_length(scores["by_length"]))
    if gold_alignments:
        screen.print(
            f"alignment error rate {scores['aer']:.3f}, precision {scores['precision']:.3f}, recall "
            f"{scores['recall']:.3f}; without words that gold leaves unaligned "
            f"{scores['aer_aligned_words']:.3f}",
            soft_wrap=True,
        )


def translations(
    system: "Translator", wanted: list[tuple[str, str]], beam: int | None, alpha: float | None
) -> dict[str, Any]:
    """How good the translations of the sources are."""
    from regard.tasks import quality

    sources = [text for text, _ in wanted]
    with Progress(console=aside(), transient=True) as progress:
        task = progress.add_task("translating", total=len(sources))
        found = []
        for start in range(0, len(sources), 500):
            found += system.translate(sources[start : start + 500], beam=beam, alpha=alpha)
            progress.update(task, completed=len(found))
    scores: dict[str, Any] = asdict(quality(sources, [t.text for t in found], [text for _, text in wanted]))
    scores["beam"] = system.decoding.beam if beam is None else beam
    if scores["beam"] > 1:
        greedy = system.translate(sources, beam=1)
        below = sum(a.log_prob < b.log_prob - 1e-6 for a, b in zip(found, greedy, strict=True))
        scores["below_greedy"] = below / len(found)
    return scores


def alignments(
    system: "Aligner | Translator", wanted: list[tuple[str, str]], gold: Path, base: int | None = None
) -> dict[str, Any]:
    """How good the links between sources and targets are, found as `regard align` does by default."""
    from regard.alignment import align, score
    from regard.alignment.formats import read
    from regard.data.text import DataError

    sizes = [(len(one.split()), len(other.split())) for one, other in wanted]
    links = read(gold, sizes, base=base, gold=True)
    if len(links) != len(wanted):
        raise DataError(f"{gold} ends with sentence {len(links):,}, and there are {len(wanted):,}.")
    found = align(system, wanted)
    for remark in found.remarks:
        aside().print(remark, soft_wrap=True, markup=False)
    scores = score(found.links, links)
    return {
        "aer": scores.aer,
        "precision": scores.precision,
        "recall": scores.recall,
        "aer_aligned_words": score(found.links, links, aligned_words=True).aer,
        "alignment": found.remarks,
    }


def by_length(groups: dict[str, dict[str, float]]) -> Table:
    """Scores by the length of the source, as a table."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("words", "sentences", "BLEU", "exact match"):
        table.add_column(heading, justify="right")
    for words, group in groups.items():
        cells = [words, f"{group['sentences']:,}", f"{group['bleu']:.1f}", f"{group['exact_match']:.3f}"]
        table.add_row(*cells)
    return table
