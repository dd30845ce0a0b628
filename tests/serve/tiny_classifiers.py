"""Classifiers small enough for tests, and a text for them."""

import json

from regard.runs.fit_classifier import fit_classifier
from regard.runs.resolve_classifier import resolved_classifier

TEXT = "the film was exquisite . a dull town by the river"
MODELS = {
    "bilstm": {"name": "attentive_bilstm", "embedding": 16, "width": 16},
    "looks": {
        "name": "self_attentive",
        "embedding": 16,
        "width": 16,
        "rows": 3,
        "compared": 8,
        "inner": 8,
    },
    "sentences": {"name": "hierarchical", "embedding": 16, "width": 16},
    "layers": {"name": "transformer_encoder", "embedding": 16, "inner": 16, "heads": 2, "layers": 2},
    "first": {
        "name": "transformer_encoder",
        "embedding": 16,
        "inner": 16,
        "heads": 2,
        "layers": 2,
        "read": "first",
    },
    "pairs": {"name": "attentive_mlp", "embedding": 16, "width": 16},
    "pairs_looks": {
        "name": "self_attentive",
        "embedding": 16,
        "width": 16,
        "rows": 2,
        "compared": 8,
        "inner": 8,
    },
}


def train_classifiers(folder, names=tuple(MODELS)):
    """The folders of classifiers that have begun to learn; "layers" reads pieces of words."""
    rows = [
        {"text": f"anna {a} bert {b} .", "second": who, "label": a if who == "anna" else b}
        for a in ("good", "bad", "<b>fair</b>")
        for b in ("good", "bad", "<b>fair</b>")
        for who in ("anna", "bert")
    ] * 4
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for name in names:
        data = {"corpus": "sentiment", "texts": 150, "held_out": 10}
        if name.startswith("pairs"):
            data = {"train": str(folder / "pairs.jsonl")}
        if name == "layers":
            data |= {"tokens": "bpe", "vocabulary": 300}
        settings = {
            "seed": 3,
            "data": data,
            "model": MODELS[name],
            "training": {
                "steps": 6,
                "tokens": 600,
                "warmup": 3,
                "rate": 0.02,
                "validate": 100,
                "save": 100,
            },
        }
        fit_classifier(resolved_classifier(settings), folder / name)
    return [folder / name for name in names]


def second_of(run):
    """What a run takes as its second text."""
    return "bert" if run.pairs else None
