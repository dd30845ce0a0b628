"""regard align: which source word each target word translates."""

from pathlib import Path
from typing import Literal

from typer import Argument, Option

from regard.alignment.choose import Head
from regard.alignment.formats import read, said_skipped, write, write_naacl
from regard.cli.app import app, remark
from regard.cli.common import Device, exit_on_error, open_run, progress_bar, write_lines
from regard.core.errors import SettingsError
from regard.data.text import pairs


@app.command()
@exit_on_error("regard align")
def align(
    run: Path = Argument(..., metavar="DIR", help="The folder of an aligner or of a trained translator."),
    source: Path = Option(..., help="Sentences (.gz too), or pairs in one .tsv or .jsonl."),
    target: Path | None = Option(None, help="Their translations."),
    reverse: Path | None = Option(
        None, metavar="DIR", help="A translator from the target's language to the source's."
    ),
    gold_alignments: Path | None = Option(
        None, help="Links of the first sentences: head, threshold … are chosen on them."
    ),
    base: int | None = Option(None, min=0, max=1, help="What gold links count from, if they do not tell."),
    out_of_range: Literal["refuse", "skip"] = Option(
        "refuse", help="Gold links beyond the end of a sentence: refuse the file, or skip and count them."
    ),
    layer: int | None = Option(None, min=1, help="A layer of a translator, from 1, instead of choosing one."),
    head: int | None = Option(None, "--head", min=1, help="With --layer: one head, from 1, not their mean."),
    method: str | None = Option(None, help="argmax, threshold, mutual or matching."),
    threshold: float | None = Option(None, help="Weights above it are links."),
    symmetrise: str | None = Option(
        None, help="intersection, union, grow-diag or grow-diag-final-and of two directions."
    ),
    naacl: bool = Option(False, "--naacl", help="Write NAACL's format, not Pharaoh's."),
    device: Device = "auto",
) -> None:
    """Write the word alignment of sentences and their translations: one line of links "source-target" each.

    With an aligner (`regard train alignment`), or with the attention of a translator that is forced to write
    the given translations; then head, shift and threshold are chosen by agreement with the other direction:
    --reverse, or an aligner trained on these sentences. What was chosen is printed on standard error.

    Examples:

    - `regard align runs/aligner --source test.en --target test.fr > test.pharaoh`

    - `regard align runs/en-fr --reverse runs/fr-en --source test.en --target test.fr > test.pharaoh`
    """
    if head is not None and layer is None:
        raise SettingsError("--head needs --layer, the layer it is a head of.")
    system = open_run(run, device)
    other = None if reverse is None else open_run(reverse, device, "translation")
    sentences = list(pairs(source, target))
    sizes = [(len(one.split()), len(two.split())) for one, two in sentences]
    skipped: list[str] | None = [] if out_of_range == "skip" else None
    gold = read(gold_alignments, sizes, base=base, gold=True, skipped=skipped) if gold_alignments else None
    with progress_bar("aligning", len(sentences)) as progress:
        found = system.align(
            sentences,
            reverse=other,
            gold=gold,
            head=None if layer is None else Head(layer - 1, None if head is None else head - 1),
            method=method,
            threshold=threshold,
            symmetrise=symmetrise,
            progress=progress,
        )
    for line in (*found.remarks, *said_skipped(skipped or [])):
        remark(line)
    write_lines(write_naacl(found.links) if naacl else write(found.links))
