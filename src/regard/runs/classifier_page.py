"""README.md of a run that trained a classifier."""

from collections.abc import Sequence

from regard.models.classifiers import ClassifierModel
from regard.runs.classifier_settings import ClassifierSettings
from regard.tasks.classes import ClassQuality


def page(
    settings: ClassifierSettings,
    model: ClassifierModel,
    labels: Sequence[str],
    scores: ClassQuality,
    steps: int,
) -> str:
    """What it is, how it scored, what it may be used for."""
    data, chosen = settings.data, settings.model
    alpha = " with learned α" if chosen.get("learn_alpha") else ""
    rows = "\n".join(
        f"| {_cell(label)} | {by['texts']:,} | {by['precision']:.3f} | {by['recall']:.3f} | {by['f1']:.3f} |"
        for label, by in scores.by_class.items()
    )
    return f"""# A classifier

Its model is `{chosen["name"]}`, of {model.parameter_count():,} parameters: score `{chosen["score"]}`, map
`{chosen["map"]}`{alpha}, trained for {steps:,} steps on {data.corpus or data.train} (seed {settings.seed}) to
tell {len(labels)} classes apart.

On {scores.texts:,} validation texts: accuracy {scores.accuracy:.4f}, macro F1 {scores.macro_f1:.4f}, log loss
{scores.loss:.4f}.

| class | texts | precision | recall | F1 |
|---|---|---|---|---|
{rows}

    regard classify DIR < in.txt > out.txt
    regard evaluate DIR --data test.tsv

`config.toml` has all that is needed to repeat it, `log.jsonl` how it went. It has seen only what it was
trained on: before anyone relies on it, measure it on texts like theirs. Attention weights shown with it say
where the model looked, not why it answered as it did.
"""


def _cell(label: str) -> str:
    return label.replace("|", "\\|")
