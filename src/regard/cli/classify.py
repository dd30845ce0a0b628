"""regard classify: a filter, one label out for each line in."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from regard.cli.app import app
from regard.cli.common import Device, Run, answer_lines, exit_on_error, resolve_device
from regard.core.errors import RunError

if TYPE_CHECKING:
    from regard.tasks.classifier import Classification

AsJson = Annotated[
    bool, Option("--json", help="One JSON object per line: label, probabilities, words, weights.")
]


@app.command()
def classify(run: Run, as_json: AsJson = False, device: Device = "auto") -> None:
    """Classify standard input with the run in DIR: a label for each line, in order; an empty one stays empty.

    A model for pairs takes a text, a tab and the second text in each line.

    Examples:

    - `regard classify runs/sst < in.txt > out.txt`

    - `echo "a gripping , witty film" | regard classify runs/sst --json`
    """
    from regard.runs.load import open_system

    with exit_on_error("regard classify"):
        system: Any = open_system(run, resolve_device(device), "classification")

        def answer(block: list[str]) -> Iterator[str]:
            found = iter(system.classify([_text(line, system) for line in block if line.strip()]))
            for line in block:
                yield _shown(next(found), as_json) if line.strip() else ""

        answer_lines(answer)


def _text(line: str, system: Any) -> Any:
    if not system.takes_second:
        return line
    text, tab, second = line.partition("\t")
    if not tab:
        raise RunError(f"this classifier takes a text, a tab and a second text; got {line[:60]!r}.")
    return text, second


def _shown(answer: "Classification", as_json: bool) -> str:
    if not as_json:
        return answer.label
    what = {
        "label": answer.label,
        "probabilities": answer.probabilities,
        "words": answer.words,
        "weights": answer.weights.tolist(),
    }
    return json.dumps(what, ensure_ascii=False)
