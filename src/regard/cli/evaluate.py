"""regard evaluate: how good a run is, by the scores of its task."""

import json
from typing import Any

from typer import Argument, Option

from regard.cli.app import app, console, say, table_of
from regard.cli.common import Device, exit_on_error, progress_bar
from regard.cli.task_options import ByTask, given, opened


@app.command(cls=ByTask, context_settings={"ignore_unknown_options": True}, options_metavar="[OPTIONS]")
@exit_on_error("regard evaluate")
def evaluate(
    arguments: list[str] = Argument(
        ..., metavar="DIR [OPTIONS OF ITS TASK]", help="The folder of a trained run."
    ),
    as_json: bool = Option(False, "--json", help="One object with all figures: bleu, accuracy, aer …"),
    device: Device = "auto",
) -> None:
    """Say how good a run is, on examples that files have; which files depends on its task, see below.

    Of a translator: BLEU, chrF, exact match, BLEU by length and, with a beam, how many sentences are less
    likely than their greedy translation; with gold alignments (Pharaoh's or NAACL's format) also alignment
    error rate, precision and recall of the links that `regard align` finds. Of an aligner, these alone. Of a
    classifier: accuracy, macro F1, log loss, and precision and recall of each class. Of a question answerer:
    accuracy of each task and their mean, and whether its hops look at the supporting sentences. Of a machine:
    wrong bits at longer sequences than it was trained on.

    Examples:

    - `regard evaluate runs/en-de --source test.en --target test.de --json`

    - `regard evaluate runs/sst --data test.tsv`
    """
    _, system, values = opened(arguments, device)
    options = given(system.task.Evaluation, values, system.task.makes)
    with progress_bar("evaluating") as progress:
        scores = system.evaluate(options, progress)
    if as_json:
        print(json.dumps(scores.figures, ensure_ascii=False))
    else:
        show(scores)


def show(scores: Any) -> None:
    """The line, the notes and the table of scores."""
    for line in (scores.line, *scores.notes):
        say(line)
    if scores.rows:
        console().print(table_of(scores))
