"""regard translate: a filter, one line out for each line in."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Annotated

from typer import Option

from regard.cli.app import app
from regard.cli.common import Device, Run, answer_lines, exit_on_error, open_run
from regard.core.errors import SettingsError

Beam = Annotated[int | None, Option(help="Width of the beam; 1 is greedy.")]
Alpha = Annotated[float | None, Option(help="Length penalty.")]
Coverage = Annotated[float | None, Option(help="Penalty for source tokens that got little weight.")]
Best = Annotated[int, Option(metavar="N", help="The N best of each, as JSON lines.")]
AsJson = Annotated[
    bool, Option("--json", help="One JSON object per line: text, score, log_prob, pieces, copied.")
]
Copied = Annotated[bool, Option("--copied", help="Put [[ ]] around words the model copied from the source.")]


@app.command()
@exit_on_error("regard translate")
def translate(
    run: Run,
    beam: Beam = None,
    alpha: Alpha = None,
    coverage: Coverage = None,
    best: Best = 1,
    as_json: AsJson = False,
    copied: Copied = False,
    device: Device = "auto",
) -> None:
    """Translate standard input to standard output with the run in DIR: one line for each line, in order.

    Examples:

    - `regard translate runs/en-de < in.txt > out.txt`

    - `echo "at half past three" | regard translate runs/demo --best 3`
    """
    if best < 1:
        raise SettingsError(f"--best must be at least 1; got {best}.")
    system = open_run(run, device, "translation")
    if copied and not system.copies:
        raise SettingsError(f"--copied: the model in {run} cannot copy. Train one with --copy gate.")
    facts = ["text", "score", "log_prob", "source_pieces", "target_pieces"]
    if system.copies:
        facts.append("copied")

    def answer(block: list[str]) -> Iterator[str]:
        found = system.translations(block, best=best, beam=beam, alpha=alpha, coverage=coverage)
        for one in chain.from_iterable(found):
            if as_json or best > 1:
                yield json.dumps({fact: getattr(one, fact) for fact in facts}, ensure_ascii=False)
            else:
                yield one.marked if copied else one.text

    answer_lines(answer)
