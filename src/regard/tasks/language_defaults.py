"""Settings of a language model that are not given: they depend on the model, the tokens and the text.

    steps     as suit the model, but a text is read at most EPOCHS times
    dropout   more where there is little text for a model of its size: each token is then seen many times
    segment   as suits the model, and so short that a short text has some
    tied      output and embeddings, unless tokens are characters: few, and each often seen

What is given stays as it is, and what is filled in stands in config.toml.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.core.settings import fields_of
from regard.models.language import LANGUAGE_MODELS

EPOCHS = {"character": 40, "bpe": 20, "word": 12}
PER_TOKEN = {"character": 1.0, "bpe": 3.5, "word": 5.5}  # characters, about
GENERATED = 600  # steps on a generated text, which has little to be learned
SENTENCE = 45  # characters of a generated sentence, about
LEAST = 200  # steps of the shortest training
SHORTEST = 16  # tokens of a segment
SEGMENTS = 8  # that a text has at least
# Dropout by the tokens of the text: up to so many, so much.
DROPOUT = {
    "character": ((100_000, 0.3), (400_000, 0.15)),
    "bpe": ((300_000, 0.4), (3_000_000, 0.2)),
    "word": ((500_000, 0.5), (5_000_000, 0.3), (50_000_000, 0.1)),
}


def filled(values: Mapping[str, Any], given: Mapping[str, Any], default_model: str) -> dict[str, Any]:
    """Nested settings, whose training suits the model, with dropout and training as suit the text too.

    What is `given` of training stays. Values of a wrong type are left to those who check them.
    """
    groups = {name: values.get(name) or {} for name in ("data", "model", "training")}
    if not all(isinstance(group, Mapping) for group in groups.values()):
        return dict(values)
    data, model, training = (dict(group) for group in groups.values())
    name, kind = model.get("name", default_model), data.get("tokens", "character")
    if name not in LANGUAGE_MODELS or kind not in PER_TOKEN:
        return dict(values)
    entry = LANGUAGE_MODELS[name]
    tokens = int(_characters(data) / PER_TOKEN[kind])
    if not tokens:
        return dict(values)
    if "dropout" not in model and "dropout" in fields_of(entry.config):
        more = [rate for most, rate in DROPOUT[kind] if tokens <= most]
        model |= {"dropout": max(more)} if more else {}
    if "tied" not in model and "tied" in fields_of(entry.config):
        model["tied"] = kind != "character"
    batch, steps, segment = (_whole(training.get(name)) for name in ("tokens", "steps", "segment"))
    if "steps" not in given and batch and steps:
        most = GENERATED if data.get("train") is None else steps
        training["steps"] = min(steps, most, max(LEAST, EPOCHS[kind] * tokens // batch))
    if "segment" not in given and segment is not None and batch is not None:
        training["segment"] = min(
            max(min(segment, tokens // SEGMENTS), min(SHORTEST, segment)), max(batch, 1)
        )
    return {**values, "model": model, "training": training}


def _characters(data: Mapping[str, Any]) -> int:
    """The characters of the text to train on, about; 0 if that is not known."""
    file = data.get("train")
    if file is None:
        return (_whole(data.get("sentences", 20_000)) or 0) * SENTENCE
    try:
        path = Path(file)
        if path.suffix != ".gz":
            return path.stat().st_size
        with path.open("rb") as raw:
            raw.seek(-4, 2)  # a gzip file ends with the length of its text modulo 2³²
            return max(int.from_bytes(raw.read(4), "little"), path.stat().st_size)
    except (OSError, TypeError, ValueError):
        return 0


def _whole(value: Any) -> int | None:
    """A whole number, also one that was typed; None if it is none."""
    typed = isinstance(value, str) and value.isascii() and value.isdigit()
    return int(value) if typed or type(value) is int else None
