"""An aligner in a folder: config.toml, model.safetensors, vocabulary.json and a page about it."""

import json
from pathlib import Path

import numpy as np
import torch

from regard.alignment.aligner import Aligner, Settings
from regard.alignment.bitext import Vocabulary
from regard.alignment.direction import Direction
from regard.core.errors import RunError, WeightsError
from regard.core.files import beside, write_text
from regard.core.settings import from_dict, read_toml, to_dict, toml
from regard.core.weights import load_tensors, save_tensors

CONFIG, MODEL, WORDS, README = "config.toml", "model.safetensors", "vocabulary.json", "README.md"
TABLES = ("table", "empty", "jumps", "first")
TASK = "aligner"


def free(folder: Path) -> None:
    """See that an aligner may be put into a folder: it must be empty or not there."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} is there already and not an empty folder. Choose another --out.")


def save(aligner: Aligner, folder: Path, page: str = "") -> None:
    """Write an aligner into a folder; it is whole as soon as config.toml is there."""
    tensors = {"codes": torch.from_numpy(aligner.codes)}
    for name, direction in (("forward", aligner.forward), ("reverse", aligner.reverse)):
        for table in TABLES:
            tensors[f"{name}.{table}"] = torch.from_numpy(getattr(direction, table)).float()
    with beside(folder / MODEL) as draft:
        save_tensors(tensors, draft)
    words = {"source": list(aligner.source.numbers), "target": list(aligner.target.numbers)}
    write_text(folder / WORDS, json.dumps(words, ensure_ascii=False))
    write_text(folder / README, page or "# A word aligner\n\n    regard align DIR --source F --target F\n")
    write_text(folder / CONFIG, toml({"task": TASK, TASK: to_dict(aligner.settings)}))


def is_aligner(folder: Path) -> bool:
    """Whether a folder holds an aligner."""
    return (folder / CONFIG).exists() and read_toml(folder / CONFIG).get("task") == TASK


def load(folder: Path) -> Aligner:
    """The aligner in a folder."""
    if not is_aligner(folder):
        raise RunError(f"{folder} holds no aligner. Train one: regard train aligner --out {folder}")
    settings = from_dict(Settings, read_toml(folder / CONFIG).get(TASK, {}), f"{TASK}.")
    tensors = {name: tensor.numpy() for name, tensor in load_tensors(folder / MODEL).items()}
    try:
        words = json.loads((folder / WORDS).read_text(encoding="utf-8"))
        source, target = Vocabulary(words["source"]), Vocabulary(words["target"])
        codes = tensors["codes"]
        given, word = np.divmod(codes, max(len(target), 1))
        directions = []
        sizes = len(source), len(target)
        for name, pairs in (("forward", (given, word)), ("reverse", (word, given))):
            direction = Direction(*pairs, sizes, tensors[f"{name}.table"].astype(np.float64))
            for table in TABLES[1:]:
                value = tensors[f"{name}.{table}"].astype(np.float64)
                if value.shape != getattr(direction, table).shape:
                    raise ValueError
                setattr(direction, table, value)
            if direction.table.shape != codes.shape or given.max(initial=-1) >= len(source):
                raise ValueError
            directions.append(direction)
            sizes = sizes[::-1]
    except (OSError, ValueError, KeyError, TypeError):
        raise WeightsError(f"{folder}: {MODEL} and {WORDS} do not belong together, or are broken.") from None
    return Aligner(settings, source, target, codes, *directions)
