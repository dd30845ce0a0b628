"""A small MLP that sees one word at a time, and can be given weights to learn with.

It learns from texts whatever their tokens are, with its own weights or with those of any other model: what it
makes of them is made of the words alone.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.audits.case import Batch, Texts, padded
from regard.audits.ours import of_model
from regard.audits.training import Some, Trainable, learn
from regard.core.tokens import UNK
from regard.models.classifiers import CLASSIFIERS
from regard.models.classifiers import ClassifierModel as Model
from regard.runs.classifier_settings import ClassifierTraining


class Numbered:
    """Tokens of any kind as numbers; those that training did not have are unknown."""

    def __init__(self, texts: Texts):
        self.ids: dict[Any, int] = {}
        for text in texts:
            for token in text:
                self.ids.setdefault(token, UNK + 1 + len(self.ids))

    def __len__(self) -> int:
        return UNK + 1 + len(self.ids)

    def __call__(self, texts: Texts) -> list[list[int]]:
        return [[self.ids.get(token, UNK) for token in text] for text in texts]


def small_mlp(texts: Texts, labels: Tensor, classes: int, vocabulary: int, *, steps: int = 500) -> Trainable:
    """What such an MLP can be trained with; the texts are numbers below `vocabulary`."""
    model = CLASSIFIERS["attentive_mlp"].make(
        vocabulary=vocabulary, classes=classes, embedding=64, width=64, dropout=0.1, word_dropout=0.05
    )
    return Trainable(texts, labels, classes, model, ClassifierTraining(steps=steps, rate=5e-3, tokens=2048))


def trained_with(train: Trainable, shown: Sequence[Tensor], seed: int) -> Model:
    """An MLP trained with the weights `shown` of its texts, (n,) for each, in the place of its own."""
    model = train.fresh(seed)

    def loss(some: Some) -> Tensor:
        weights = padded([shown[i] for i in some.rows.tolist()]).unsqueeze(-2)
        with model.looking_with(weights):
            return model.loss(some.wanted, some.tokens, some.lengths)

    learn(model, train.batches(train.texts, seed), loss, train.training, None, seed)
    return model


def decided_with(model: Model, texts: Sequence[Sequence[int]], shown: Sequence[Tensor]) -> Tensor:
    """What a model says of texts with the weights `shown`: (N,)."""

    def said(batch: Batch) -> Tensor:
        assert batch.again is not None
        with torch.no_grad():
            return batch.again(padded([shown[i] for i in batch.rows.tolist()]).unsqueeze(-2))

    return of_model(model, texts).each(said).argmax(-1)


def even_weights(texts: Texts) -> list[Tensor]:
    """1/n for each word, (n,) for each text."""
    return [torch.full((len(text),), 1 / len(text), dtype=torch.float64) for text in texts]
