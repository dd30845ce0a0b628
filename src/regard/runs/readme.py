"""README.md of a run: what it is, how good it is, what it may be used for."""

from pathlib import Path
from typing import Any

from torch import nn

from regard.runs.folder import CONFIG, LOG, README
from regard.tasks.system import Scores, System
from regard.tasks.task import Task
from regard.views.shown_text import cropped

PARAGRAPH = 500  # characters of it that are shown
CARE = (
    "It has seen only what it was trained on: before anyone relies on it, measure it on examples like"
    " theirs. Attention weights shown with it say where the model looked, not why it answered as it did."
)


def readme(system: System, scores: Scores, steps: int | None) -> str:
    """The page about a run; `steps` that it was trained for, if it was trained in steps."""
    task, settings = system.task, system.settings
    trained = "trained" if steps is None else f"trained for {steps:,} steps"
    parts = [
        f"# A {task.makes}",
        f"{system.purpose} Learned from {_data(task, settings.data)}. "
        + (
            f"On validation {task.examples}: {scores.line}."
            if steps is not None
            else f"It has {scores.line}."
        ),
        f"{_model(system)}{trained} with seed {settings.seed}.",
        _table(scores),
        "\n".join(f"    {line}" for line in task.usage),
        f"`{CONFIG}` has all that is needed to repeat it, `{LOG}` how it went. {CARE}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def first_paragraph(folder: Path | None) -> str:
    """What the README of a run says first, in plain text; "" if there is none."""
    file = None if folder is None else folder / README
    if file is None or not file.is_file():  # a pipe is none
        return ""
    with file.open("rb") as stream:
        text = stream.read(1 << 16).decode("utf-8", "replace")
    prose = (part.strip() for part in text.replace("\r\n", "\n").split("\n\n"))
    found = next((part for part in prose if part and not part.startswith(("#", "|", "<", "```"))), "")
    return cropped(" ".join(found.replace("`", "").split()), PARAGRAPH)


def _model(system: System) -> str:
    chosen = getattr(system.settings, "model", {})
    if not isinstance(system.model, nn.Module) or "name" not in chosen:
        return f"A {system.task.makes}, "
    size = sum(p.numel() for p in system.model.parameters())
    alpha = " with learned α" if chosen.get("learn_alpha") else ""
    named = [f"{what} `{chosen[what]}`" for what in ("score", "map") if what in chosen]
    attention = f", {', '.join(named)}{alpha}" if named else ""
    return f"Its model is `{chosen['name']}`, {size:,} parameters{attention}; "


def _data(task: Task, data: Any) -> str:
    values = {name: value for name, value in vars(data).items() if isinstance(value, str)}
    if corpus := values.get("corpus"):
        says = str(task.corpora[corpus].says).rstrip(".")
        return f"generated {task.examples}, {corpus} ({says[:1].upper()}{says[1:]})"
    files = [values[name] for name in ("source", "target", "train") if name in values]
    return " → ".join(files) or "its data"


def _table(scores: Scores) -> str:
    if not scores.rows:
        return ""
    rows = [scores.headings, tuple("---" for _ in scores.headings), *scores.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
