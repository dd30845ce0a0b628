"""Frozen weights: are the weights of use to a model that sees one word at a time?

    value = accuracy of a small MLP that is trained with the model's weights in the place of its own
    baseline = the same with weights 1/n

A model without context can use weight on a word only for that word: weights that help it are on words that
matter by themselves. It learns from few texts, since from many it would learn with any weights. Its accuracy
with its own weights is in the details.

Wiegreffe & Pinter (2019), "Attention is not not Explanation", arXiv:1908.04626, §3.4.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import torch
from torch import Tensor

from regard.audits.register import Finding, register
from regard.audits.retraining import TextBatch, correct, retrain, small_mlp, trainable_of, usual_loss
from regard.core.tokens import UNK
from regard.models.classifiers import ClassifierModel
from regard.tasks.case import Case, NotApplicable, Texts, Trainable, pad_rows

MOST = 200  # training texts


@register("out of context", trains=True, trainings=0, graded="difference")  # its own trainings are small
def frozen(case: Case, *, seed: int = 0, steps: int = 150, most: int = MOST) -> Finding:
    """Train an MLP with the weights of the case."""
    train, own = trainable_of(case), correct(case, case.decision)
    if train.model is not None and train.model.config.pairs:
        raise NotApplicable("the texts come in pairs")
    generator = torch.Generator().manual_seed(seed)
    some = torch.randperm(len(train.texts), generator=generator)[:most].tolist()
    texts, labels = [train.texts[i] for i in some], train.labels[some]
    learned = replace(case, texts=texts, labels=labels, highlights=None, words=None, train=None)
    numbered, tested = token_ids(texts, texts), token_ids(texts, case.texts)
    vocabulary = UNK + 1 + len(set(chain.from_iterable(texts)))
    mlp = small_mlp(numbered, labels, train.classes, vocabulary, steps=steps)
    uniform = [
        [torch.full((len(text),), 1 / len(text), dtype=torch.float64) for text in part]
        for part in (texts, case.texts)
    ]
    with_own = correct(case, Case.from_model(retrain(mlp, seed=seed), tested).decision)
    with_these, with_uniform = (
        correct(case, decide_with(train_with(mlp, before, seed), tested, after))
        for before, after in ((learned.shown, case.shown), uniform)
    )
    says = "accuracy of an MLP, which sees one word at a time, with these weights; baseline: with weights 1/n"
    details = {"own weights": with_own.mean(), "the model itself": own.mean()}
    return Finding.of(with_these, with_uniform, says, seed, details)


def token_ids(known: Texts, texts: Texts) -> list[list[int]]:
    """Texts of tokens of any kind as numbers; tokens that are not in the known texts are unknown."""
    ids = {token: UNK + 1 + i for i, token in enumerate(dict.fromkeys(chain.from_iterable(known)))}
    return [[ids.get(token, UNK) for token in text] for text in texts]


def train_with(train: Trainable, weights: Sequence[Tensor], seed: int) -> ClassifierModel:
    """An MLP trained with these weights of its texts, (n,) for each, in the place of its own."""

    def loss(model: ClassifierModel, batch: TextBatch) -> Tensor:
        with model.looking_with(_picked(weights, batch.rows)):
            return usual_loss(model, batch)

    return retrain(train, loss=loss, seed=seed)


def decide_with(model: ClassifierModel, texts: Texts, weights: Sequence[Tensor]) -> Tensor:
    """The classes (N,) that a model predicts for texts with these weights, (n,) for each."""
    case = Case.from_model(model, texts)
    return case.each(lambda batch: batch.intervene(_picked(weights, batch.rows))).argmax(-1)


def _picked(weights: Sequence[Tensor], rows: Tensor) -> Tensor:
    """The weights of some texts: (b, 1, n)."""
    return pad_rows([weights[i] for i in rows.tolist()]).unsqueeze(-2)
