"""C43: what takes two facts takes two hops."""

from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from regard.claims.claim import Figures, at_least, at_most, claim
from regard.claims.quick import few, sized
from regard.data.corpora import STORIES
from regard.runs.fit import fit
from regard.tasks.answering import ANSWERING


def trained(hops: int, seed: int) -> Any:
    """A memory network with so many hops, trained on questions that take two facts."""
    values = {
        "data": {"corpus": "two_facts", "questions": sized(10_000, 64), "held_out": sized(500, 16)},
        "seed": seed,
        "model": {"name": "memory_network", "hops": hops, "map": "softmax", "empty": False},
        "training": {
            "steps": few(3000),
            "validate": few(500),
            "optimiser": "adam",
            "rate": 5e-3,
            "examples": 64,
            "decay": 0.0,
            "clip": 40.0,
            "average": 1,
            "linear_start": 0.25,
        },
    }
    with TemporaryDirectory() as folder:
        return fit(ANSWERING.resolve(values), Path(folder) / "run").system


@claim(
    "C43",
    group="Memory",
    fixed="3a25765",
    says="Memory networks answer what takes several facts, with several hops.",
    source="004:843",
    experiment="Generated stories of 8 sentences: who took a thing, where they went; where is the thing? "
    "10,000 questions, 3,000 steps; 1,000 others.",
    control="One hop.",
    conditions=[
        at_most(0.6, "accuracy, 1 hop"),
        at_least(0.9, "accuracy, 3 hops"),
        at_least(0.8, "weight of the second hop on the second fact"),
    ],
    minutes=0.3,
    changed="Seed 0 had been run once before, with an earlier version of the model.",
)
def several(seed: int) -> Figures:
    """Accuracy with one hop and three, and where the hops look."""
    asked = list(islice(STORIES["two_facts"](seed, "test"), sized(1000, 16)))
    one, three = trained(1, seed), trained(3, seed)
    shown = three.hop_weights(three.answer([(item.story, item.question) for item in asked]))
    rows = torch.arange(len(asked))
    first, second = (torch.tensor([item.facts[k] for item in asked]) for k in (0, 1))
    return {
        "accuracy, 1 hop": one.score(asked)["accuracy"],
        "accuracy, 3 hops": three.score(asked)["accuracy"],
        "weight of the first hop on the first fact": float(shown[rows, 0, first].mean()),
        "weight of the second hop on the second fact": float(shown[rows, 1, second].mean()),
        "weight of the third hop on the second fact": float(shown[rows, 2, second].mean()),
    }
