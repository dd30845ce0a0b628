"""regard classify: a filter, one label out for each line in."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from regard.cli.app import app, aside, complain
from regard.cli.train import chosen
from regard.cli.translate import blocks
from regard.core.errors import RunError, SettingsError, WeightsError

if TYPE_CHECKING:
    from regard.runs.classifier import Classification, Classifier

Run = Annotated[Path, Argument(metavar="DIR", help="The folder of a trained run.")]
AsJson = Annotated[
    bool, Option("--json", help="One JSON object per line: label, probabilities, words, weights.")
]
Device = Annotated[str, Option(help="auto, cpu, cuda or mps.")]


@app.command()
def classify(run: Run, as_json: AsJson = False, device: Device = "auto") -> None:
    """Classify standard input with the run in DIR: a label for each line, in order; an empty one stays empty.

    A model for pairs takes a text, a tab and the second text in each line.

    Examples:

    - `regard classify runs/sst < in.txt > out.txt`

    - `echo "a gripping , witty film" | regard classify runs/sst --json`
    """
    from regard.runs.fit_classifier import is_classifier, load_classifier

    try:
        if run.is_dir() and not is_classifier(run):
            raise RunError(f"{run} holds no classifier: regard train classification makes one.")
        system = load_classifier(run, chosen(device))
        for block in blocks():
            found = iter(system.classify([_text(line, system) for line in block if line.strip()]))
            for line in block:
                answer = next(found) if line.strip() else None
                sys.stdout.write((_shown(answer, as_json) if answer is not None else "") + "\n")
            sys.stdout.flush()
    except (RunError, SettingsError, WeightsError, ImportError, ValueError) as error:
        complain(error)
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads on: not an error worth a word
        raise Exit(1) from None
    except KeyboardInterrupt:
        aside().print("regard classify: stopped.")
        raise Exit(130) from None


def _text(line: str, system: "Classifier") -> Any:
    if not system.classes.pairs:
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
