"""The system in a folder, whichever it is."""

from pathlib import Path
from typing import Any

from regard.alignment.keeping import is_aligner
from regard.alignment.keeping import load as load_aligner
from regard.runs.fit_classifier import is_classifier, load_classifier
from regard.runs.load import load as load_run


def load(folder: str | Path, device: str = "cpu") -> Any:
    """The trained system in a folder, ready to use: a Translator, an Aligner, or a Classifier."""
    folder = Path(folder)
    if is_classifier(folder):
        return load_classifier(folder, device)
    return load_aligner(folder) if is_aligner(folder) else load_run(folder, device)
