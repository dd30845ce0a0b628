"""A run small enough for tests."""

from pathlib import Path

SETTINGS = {
    "seed": 3,
    "data": {"corpus": "copy", "pairs": 400, "held_out": 40, "tokens": "word", "vocabulary": 60},
    "model": {"name": "transformer", "width": 32, "layers": 1, "heads": 2},
    "training": {
        "steps": 30,
        "tokens": 256,
        "warmup": 10,
        "rate": 0.003,
        "validate": 10,
        "save": 3,
        "report": 5,
    },
    "decoding": {"beam": 2},
}


def options(folder: Path, *more: str) -> list[str]:
    """The same as arguments of `regard train translation`."""
    given = [
        "train",
        "translation",
        "--corpus",
        "copy",
        "--seed",
        "3",
        "--out",
        str(folder),
        "--device",
        "cpu",
    ]
    for group in ("data", "model", "training", "decoding"):
        for key, value in SETTINGS[group].items():
            if key != "corpus":
                given += ["--set", f"{group}.{key}={value}"]
    return [*given, *more]
