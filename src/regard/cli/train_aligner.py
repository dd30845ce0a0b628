"""regard train aligner: the best word alignment there is to learn from raw bitext."""

from pathlib import Path
from time import monotonic
from typing import Annotated

from rich.progress import Progress
from typer import Option

from regard.cli.app import aside, console
from regard.cli.train import alone, attempt, train

Source = Annotated[Path, Option(help="Sentences, one per line (.gz too); or pairs in one .tsv or .jsonl.")]
Target = Annotated[Path | None, Option(help="Their translations, line by line.")]
Out = Annotated[Path, Option(metavar="DIR", help="The folder of the aligner.")]
Set = Annotated[
    list[str] | None, Option("--set", metavar="KEY=VALUE", help="Any setting, as rounds=8; repeatable.")
]


@train.command()
def aligner(source: Source, out: Out, target: Target = None, set: Set = None) -> None:
    """Train a word aligner into DIR; `regard align DIR` then uses it.

    Two hidden Markov models, one in each direction, trained by expectation–maximisation to agree. The
    sentences to be aligned may, and should, be among those it is trained on: it is shown no links.

    Example: `regard train aligner --source train.en --target train.fr --out runs/aligner`
    """
    from regard.alignment.aligner import Settings
    from regard.alignment.expectation import train as learn
    from regard.alignment.keeping import free, save
    from regard.core.settings import assigned, from_dict
    from regard.data.text import pairs

    alone("regard train aligner")
    with attempt("regard train aligner", out):
        values: dict[str, object] = {}
        for assignment in set or []:
            values = assigned(values, assignment)
        settings = from_dict(Settings, values)
        free(out)
        started, bitext = monotonic(), list(pairs(source, target))
        with Progress(console=aside(), transient=True) as bar:
            task = bar.add_task("training", total=settings.first_rounds + settings.rounds)

            def say(text: str) -> None:
                bar.console.print(text, soft_wrap=True)
                bar.advance(task)

            found = learn(bitext, settings, say=say)
        what = f"{source}" + (f" → {target}" if target else "")
        save(found, out, page(what, len(bitext), len(found.source), len(found.target)))
    answer = console()
    answer.print(
        f"{len(bitext):,} pairs, {len(found.source):,} and {len(found.target):,} different words, "
        f"{monotonic() - started:.0f} seconds",
        soft_wrap=True,
    )
    answer.print(f"{out}: regard align {out} --source F --target F > out.pharaoh", soft_wrap=True)


def page(what: str, sentences: int, source: int, target: int) -> str:
    """README.md of an aligner."""
    return f"""# A word aligner

Two hidden Markov models (Vogel, Ney & Tillmann 1996) trained to agree (Liang, Taskar & Klein 2006) on
{sentences:,} sentence pairs of {what}, with {source:,} different source words and {target:,} target words.

    regard align DIR --source test.src --target test.trg > out.pharaoh
    regard align DIR --source test.src --target test.trg --gold-alignments first.links > out.pharaoh

It knows the words it was trained on. Sentences to be aligned are best among them: it is shown no links.
"""
