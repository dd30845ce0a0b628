"""How good a classifier is: accuracy, log loss, and precision, recall and F1 of each class.

    precision = right / said        recall = right / there are        F1 = their harmonic mean

macro_f1 is the mean of the classes' F1, rare and frequent ones alike. F1 is 0 where nothing is right.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class ClassQuality:
    """Scores of a set of classified texts."""

    accuracy: float
    loss: float  # −log p of the right class, per text
    macro_f1: float
    by_class: dict[str, dict[str, float]]  # texts, precision, recall, f1
    texts: int


def class_measures(logits: Tensor, labels: Tensor) -> tuple[dict[str, float], int]:
    """Validation: loss and right answers of logits (b, classes), summed over the batch, and its size."""
    loss = F.cross_entropy(logits, labels, reduction="sum").item()
    return {"loss": loss, "accuracy": int((logits.argmax(-1) == labels).sum())}, len(labels)


def class_quality(probabilities: Sequence[Mapping[str, float]], wanted: Sequence[str]) -> ClassQuality:
    """Score the probabilities of every class against the right ones."""
    if len(probabilities) != len(wanted):
        raise ValueError(
            f"there must be as many answers as labels; got {len(probabilities)} and {len(wanted)}."
        )
    if not wanted:
        raise ValueError("there is nothing to score: no text was given.")
    said = [max(found, key=found.__getitem__) for found in probabilities]
    by_class = {}
    counts = [
        Counter(some) for some in ((a for a, b in zip(said, wanted, strict=True) if a == b), said, wanted)
    ]
    for name in probabilities[0]:
        right, claimed, there = (count[name] for count in counts)
        by_class[name] = {
            "texts": there,
            "precision": right / claimed if claimed else 0.0,
            "recall": right / there if there else 0.0,
            "f1": 2 * right / (claimed + there) if right else 0.0,
        }
    present = [scores["f1"] for scores in by_class.values() if scores["texts"]]
    losses = [-math.log(max(p[label], 1e-45)) for p, label in zip(probabilities, wanted, strict=True)]
    return ClassQuality(
        accuracy=sum(a == b for a, b in zip(said, wanted, strict=True)) / len(wanted),
        loss=sum(losses) / len(wanted),
        macro_f1=sum(present) / len(present),
        by_class=by_class,
        texts=len(wanted),
    )
