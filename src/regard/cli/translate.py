"""regard translate: a filter, one line out for each line in."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from regard.cli.app import app
from regard.cli.common import Device, Run, answer_lines, exit_on_error, resolve_device

if TYPE_CHECKING:
    from regard.tasks.translator import Translation

Beam = Annotated[int | None, Option(help="Width of the beam; 1 is greedy.")]
Alpha = Annotated[float | None, Option(help="Length penalty.")]
Coverage = Annotated[float | None, Option(help="Penalty for source tokens that got little weight.")]
Best = Annotated[int, Option(metavar="N", help="The N best of each, as JSON lines.")]
AsJson = Annotated[
    bool, Option("--json", help="One JSON object per line: text, score, log_prob, pieces, copied.")
]
Copied = Annotated[bool, Option("--copied", help="Put [[ ]] around words the model copied from the source.")]


@app.command()
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
    from regard.core.errors import SettingsError
    from regard.runs.load import open_system

    with exit_on_error("regard translate"):
        if best < 1:
            raise SettingsError(f"--best must be at least 1; got {best}.")
        system: Any = open_system(run, resolve_device(device), "translation")
        if copied and not system.copies:
            raise SettingsError(f"--copied: the model in {run} cannot copy. Train one with --copy gate.")

        def answer(block: list[str]) -> Iterator[str]:
            found = system.translations(block, best=best, beam=beam, alpha=alpha, coverage=coverage)
            for translation in (one for several in found for one in several):
                if as_json or best > 1:
                    yield _json(translation)
                else:
                    yield translation.marked if copied else translation.text

        answer_lines(answer)


def _json(translation: "Translation") -> str:
    what = {
        "text": translation.text,
        "score": translation.score,
        "log_prob": translation.log_prob,
        "source_pieces": translation.source_pieces,
        "target_pieces": translation.target_pieces,
        **({"copied": translation.copied} if translation.system.copies else {}),
    }
    return json.dumps(what, ensure_ascii=False)
