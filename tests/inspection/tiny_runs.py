"""Runs small enough for tests, trained once in a process: translators, and one classifier of each kind."""

import atexit
import json
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from regard.runs import fit, resolve
from regard.runs.folder import open_system

TRANSLATORS = {
    "heads": {"name": "transformer", "width": 32, "inner": 32, "layers": 2, "heads": 2},
    "sparse": {"name": "bahdanau", "width": 16, "map": "entmax15"},
    "rnn": {"name": "rnn", "width": 16},
}
STEPS = {"heads": 40, "sparse": 5, "rnn": 2}  # fewer, and all it writes is white space
COPIED = "du ga bo ge"  # a text for translators

SELF_ATTENTIVE = {"name": "self_attentive", "embedding": 16, "width": 16, "compared": 8, "inner": 8}
ENCODER = {"name": "transformer_encoder", "embedding": 16, "inner": 16, "heads": 2, "layers": 2}
CLASSIFIERS = {
    "bilstm": {"name": "attentive_bilstm", "embedding": 16, "width": 16},
    "queries": {**SELF_ATTENTIVE, "rows": 3},
    "sentences": {"name": "hierarchical", "embedding": 16, "width": 16},
    "layers": ENCODER,  # reads subwords
    "first": {**ENCODER, "read": "first"},
    "pairs": {"name": "attentive_mlp", "embedding": 16, "width": 16},
    "pairs_queries": {**SELF_ATTENTIVE, "rows": 2},
    "pairs_layers": ENCODER,
}
REVIEW = "the film was exquisite . a dull town by the river"  # a text for classifiers
LABELS = ("good", "bad", "<b>fair</b>")


@cache
def folder_of(name):
    """The folder of a run that has begun to learn."""
    folder = _root() / name
    fit(resolve(_translator(name) if name in TRANSLATORS else _classifier(name)), folder)
    return folder


@cache
def system_of(name):
    """The run itself."""
    return open_system(folder_of(name))


def second_of(system):
    """What a system takes as its second text."""
    return "bert" if system.takes_second else None


def _translator(name):
    """Copies; every word has several subwords."""
    return {
        "task": "translation",
        "seed": 4,
        "data": {"corpus": "copy", "pairs": 300, "held_out": 4, "tokens": "character", "vocabulary": 60},
        "model": {**TRANSLATORS[name], "dropout": 0.0},
        "training": {
            "steps": STEPS[name],
            "tokens": 256,
            "rate": 0.01,
            "warmup": 5,
            "validate": 500,
            "save": 500,
        },
        "decoding": {"beam": 2 if name == "sparse" else 1, "most": 24},
    }


def _classifier(name):
    data = {"corpus": "sentiment", "texts": 150, "held_out": 10}
    if name.startswith("pairs"):
        data = {"train": str(_pairs())}
    if name == "layers":
        data |= {"tokens": "bpe", "vocabulary": 300}
    return {
        "task": "classification",
        "seed": 3,
        "data": data,
        "model": CLASSIFIERS[name],
        "training": {"steps": 6, "tokens": 600, "warmup": 3, "rate": 0.02, "validate": 100, "save": 100},
    }


@cache
def _pairs():
    rows = [
        {"text": f"anna {a} bert {b} .", "second": who, "label": a if who == "anna" else b}
        for a in LABELS
        for b in LABELS
        for who in ("anna", "bert")
    ] * 4
    file = _root() / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


@cache
def _root():
    folder = Path(mkdtemp(prefix="regard-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
