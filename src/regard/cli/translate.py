"""regard translate: a filter, one line out for each line in."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from regard.cli.app import app, aside, complain
from regard.cli.train import chosen
from regard.core.errors import RunError, SettingsError, WeightsError

Run = Annotated[Path, Argument(metavar="DIR", help="The folder of a trained run.")]
Beam = Annotated[int | None, Option(help="Width of the beam; 1 is greedy.")]
Alpha = Annotated[float | None, Option(help="Length penalty.")]
Coverage = Annotated[float | None, Option(help="Penalty for source words nobody looked at.")]
Best = Annotated[int, Option(metavar="N", help="The N best of each, as JSON lines.")]
AsJson = Annotated[
    bool, Option("--json", help="One JSON object per line: text, score, log_prob, pieces, copied.")
]
Copied = Annotated[bool, Option("--copied", help="Put [[ ]] around words the model copied from the source.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or mps.")]
LINES = 2000  # read, translated and written at once


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
    from regard.runs import load

    try:
        if best < 1:
            raise SettingsError(f"--best must be at least 1; got {best}.")
        system = load(run, chosen(device))
        if copied and not system.copies:
            raise SettingsError(f"--copied: the model in {run} cannot copy. Train one with --copy gate.")
        for block in blocks():
            found = system.translations(block, best=best, beam=beam, alpha=alpha, coverage=coverage)
            for translations in found:
                for translation in translations:
                    line = translation.marked if copied else translation.text
                    if as_json or best > 1:
                        line = json.dumps(
                            {
                                "text": translation.text,
                                "score": translation.score,
                                "log_prob": translation.log_prob,
                                "source_pieces": translation.source_pieces,
                                "target_pieces": translation.target_pieces,
                                **({"copied": translation.copied} if system.copies else {}),
                            },
                            ensure_ascii=False,
                        )
                    sys.stdout.write(line + "\n")
            sys.stdout.flush()
    except (RunError, SettingsError, WeightsError, ImportError, ValueError) as error:
        complain(error)
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads on: not an error worth a word
        raise Exit(1) from None
    except KeyboardInterrupt:
        aside().print("regard translate: stopped.")
        raise Exit(130) from None


def blocks() -> Iterator[list[str]]:
    """The lines of standard input, some at a time."""
    from regard.data.text import DataError

    block: list[str] = []
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            block.append(raw.decode("utf-8").rstrip("\r\n"))
        except UnicodeDecodeError as error:
            raise DataError(f"standard input, line {number}: not UTF-8 (byte {error.start + 1}).") from None
        if len(block) == LINES:
            yield block
            block = []
    if block:
        yield block
