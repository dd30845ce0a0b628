"""What regard evaluate does with a classifier: accuracy, macro F1, log loss, and each class."""

import json
from dataclasses import asdict
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from regard.cli.app import console
from regard.core.errors import RunError


def evaluate_classification(run: Path, data: Path | None, as_json: bool, device: str) -> None:
    """Classify the texts of a file of labelled ones and say how well that went."""
    from regard.data.labelled import labelled
    from regard.runs.fit_classifier import evaluate, load_classifier

    if data is None:
        raise RunError(f"{run} holds a classifier: --data, a .tsv or .jsonl of labelled texts, is needed.")
    system = load_classifier(run, device)
    scores = evaluate(system, ((f"{data}, text {i}", text) for i, text in enumerate(labelled(data), 1)))
    if as_json:
        print(json.dumps(asdict(scores), ensure_ascii=False))
        return
    screen = console()
    screen.print(
        f"accuracy {scores.accuracy:.4f}, macro F1 {scores.macro_f1:.4f}, log loss {scores.loss:.4f} "
        f"on {scores.texts:,} texts",
        soft_wrap=True,
    )
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("class", "texts", "precision", "recall", "F1"):
        table.add_column(heading, justify="left" if heading == "class" else "right")
    for label, by in scores.by_class.items():
        figures = [f"{by[name]:.3f}" for name in ("precision", "recall", "f1")]
        table.add_row(escape(label), f"{by['texts']:,}", *figures)
    screen.print(table)
