"""What the tests of an audit that train need, of a run in a folder: its settings, and texts to learn from."""

from pathlib import Path

import torch

from regard.audits.training import Trainable
from regard.data.labelled import labelled
from regard.data.text import DataError
from regard.models.classifiers import ClassifierModel as Model
from regard.runs.classifier import Classifier
from regard.runs.folder import read_config
from regard.runs.resolve_classifier import begin_with_vectors, resolved_classifier


def of_run(run: Path, system: Classifier, file: Path) -> Trainable:
    """Train as the run was, on the labelled texts of a file; longer ones than it took are left out."""
    settings = resolved_classifier(read_config(run))
    items = [system.classes.check(item, f"{file}, text {i}") for i, item in enumerate(labelled(file), 1)]
    encoded = system.tokenizer.encode_many([item.text for item in items])
    kept = [i for i, text in enumerate(encoded) if 0 < len(text) <= settings.data.longest]
    labels = torch.tensor([system.classes.number[items[i].label] for i in kept])
    if len(labels.unique()) < 2:
        raise DataError(f"{file}: training needs texts of at least two classes.")
    vectors = settings.data.vectors

    def begin(model: Model) -> None:
        assert vectors is not None
        begin_with_vectors(model, vectors, system.tokenizer)

    return Trainable(
        [encoded[i] for i in kept],
        labels,
        len(system.labels),
        system.model,
        settings.training,
        None if vectors is None else begin,
    )
