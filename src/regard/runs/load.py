"""A run from its folder."""

from pathlib import Path

from regard.core.errors import RunError
from regard.core.weights import load_tensors, put_tensors
from regard.runs.fit import load_tokenizers
from regard.runs.folder import MODEL, read_settings
from regard.runs.resolve import build, system_of
from regard.runs.translator import Translator


def load(folder: str | Path, device: str = "cpu") -> Translator:
    """The trained system in a folder, ready to use."""
    folder = Path(folder)
    settings = read_settings(folder)
    if not (folder / MODEL).exists():
        raise RunError(f"{folder} is not trained to its end: {MODEL} is missing. Go on with --resume.")
    source, target = load_tokenizers(folder)
    model = build(settings, len(source), len(target))
    put_tensors(model, load_tensors(folder / MODEL), folder / MODEL)
    return system_of(model.to(device), source, target, settings)
