"""regard translate: a filter, one line out for each line in."""

import json
from collections.abc import Iterator
from itertools import chain

from typer import Option

from regard.cli.app import app
from regard.cli.common import Batch, Device, Run, Threads, answer_lines, exit_on_error, open_run
from regard.core.errors import SettingsError


@app.command()
@exit_on_error("regard translate")
def translate(
    run: Run,
    beam: int | None = Option(None, min=1, help="Width of the beam; 1 is greedy."),
    alpha: float | None = Option(None, help="Length penalty."),
    coverage: float | None = Option(None, help="Penalty for source tokens that got little weight."),
    best: int = Option(1, min=1, metavar="N", help="The N best of each, as JSON lines."),
    as_json: bool = Option(
        False, "--json", help="One JSON object per line: text, score, log_prob, pieces, copied."
    ),
    copied: bool = Option(False, "--copied", help="Put [[ ]] around words the model copied from the source."),
    batch: Batch = None,
    threads: Threads = None,
    device: Device = "auto",
) -> None:
    """Translate standard input to standard output with the run in DIR: one line for each line, in order.

    A run trained with --context reads the lines before, too; an empty line ends a document.

    Examples:

    - `regard translate runs/en-de < in.txt > out.txt`

    - `echo "at half past three" | regard translate runs/demo --best 3`
    """
    system = open_run(run, device, "translation", threads)
    if copied and not system.copies:
        raise SettingsError(f"--copied: the model in {run} cannot copy. Train one with --copy gate.")
    facts = ["text", "score", "log_prob", "source_pieces", "target_pieces"]
    if system.copies:
        facts.append("copied")

    asked = {"best": best, "beam": beam, "alpha": alpha, "coverage": coverage, "batch": batch}
    try:
        system.translations([], **asked)  # what is wrong with options is said before any line is read
    except SettingsError as error:
        raise SettingsError(str(error).replace("decoding.", "--")) from None

    def answer(block: list[str]) -> Iterator[str]:
        for one in chain.from_iterable(system.translations(block, **asked)):
            if as_json or best > 1:
                yield json.dumps({fact: getattr(one, fact) for fact in facts}, ensure_ascii=False)
            else:
                yield one.marked if copied else one.text

    answer_lines(answer, read=system.reading())
