"""regard classify: a filter, one label out for each line in; or for each picture that is named."""

import json
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any

from typer import Argument, Option

from regard.cli.app import app, fail
from regard.cli.common import Batch, Device, Run, Threads, answer_lines, exit_on_error, open_run
from regard.core.errors import RunError


@app.command()
@exit_on_error("regard classify")
def classify(
    run: Run,
    inputs: list[str] = Argument(
        None, metavar="IMAGE", help="Pictures, or texts, instead of standard input.", show_default=False
    ),
    second: str | None = Option(
        None,
        metavar="TEXT",
        help="With pictures that are named: a question about them, for runs that take one.",
    ),
    as_json: bool = Option(
        False, "--json", help="One JSON object per line: label, probabilities, weights, words or grid."
    ),
    batch: Batch = None,
    threads: Threads = None,
    device: Device = "auto",
) -> None:
    """Classify pictures, or the lines of standard input, with the run in DIR: a label for each, in order.

    A classifier of pictures takes files; on standard input, too, a line is the name of a file. A model for
    pairs takes a text, a tab and the second text in each line. An empty line stays empty.

    Examples:

    - `regard classify runs/sst < in.txt > out.txt`

    - `echo "a gripping , witty film" | regard classify runs/sst --json`

    - `regard classify runs/fashion shoe.png shirt.jpg`
    """
    system = open_run(run, device, None, threads)
    system.classify([])  # or says that it does not
    if file := next((one for one in inputs or [] if system.picture != "image" and is_file(one)), None):
        fail(f"{run} reads texts, and {file} is a file: give it as standard input, with < {quote(file)}")

    def answer(block: list[str]) -> Iterator[str]:
        texts = [_text(line, second, system) for line in block if line.strip()]
        found = iter(system.classify(texts, batch=batch))
        for line in block:
            yield _shown(next(found), as_json) if line.strip() else ""

    answer_lines(answer, inputs or None)


def is_file(text: str) -> bool:
    """Whether there is a file of this name; a text may be no name at all."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def _text(line: str, second: str | None, system: Any) -> Any:
    if second is not None:
        return system.input(line, second)
    if not system.takes_second:
        return line
    text, tab, second = line.partition("\t")
    if not tab:
        raise RunError(f"this classifier takes a text, a tab and a second text; got {line[:60]!r}.")
    return text, second


def _shown(answer: Any, as_json: bool) -> str:
    if not as_json:
        return str(answer.label)
    return json.dumps(answer.facts, ensure_ascii=False)
