"""A small MLP that sees one word at a time, trained with its own weights or with given ones.

It learns from texts of any tokens, with the weights of any model: what it makes of them is made of single
words alone.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.audits.retraining import TextBatch, batches, minimise, new_model
from regard.core.tokens import UNK
from regard.models.classifiers import CLASSIFIERS, ClassifierModel
from regard.tasks.case import Case, Texts, Trainable, pad_rows
from regard.tasks.classification import ClassificationTraining


class TokenIds:
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
    training = ClassificationTraining(steps=steps, rate=5e-3, tokens=2048)
    return Trainable(texts, labels, classes, model, training)


def train_with(train: Trainable, weights: Sequence[Tensor], seed: int) -> ClassifierModel:
    """An MLP trained with these weights of its texts, (n,) for each, in the place of its own."""
    model = new_model(train, seed)

    def loss(batch: TextBatch) -> Tensor:
        with model.looking_with(pad_rows([weights[i] for i in batch.rows.tolist()]).unsqueeze(-2)):
            return model.loss(batch.wanted, batch.tokens, batch.lengths)

    minimise(model, batches(train, train.texts, seed), loss, train.training, None, seed)
    return model


def decide_with(model: ClassifierModel, texts: Sequence[Sequence[int]], weights: Sequence[Tensor]) -> Tensor:
    """The classes (N,) that a model predicts for texts with these weights, (n,) for each."""
    given = Case.from_model(model, texts)
    return given.each(
        lambda batch: batch.intervene(pad_rows([weights[i] for i in batch.rows.tolist()]).unsqueeze(-2))
    ).argmax(-1)
