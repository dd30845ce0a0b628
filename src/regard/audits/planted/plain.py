"""Models of this project, trained as anybody would.

Without context, with states that tanh bounds and a linear read-out, a word's share in the logits is its
weight times something no larger than the read-out: little weight, little share. That is the truth planted
here, with softmax and with a sparse map. A BiLSTM stands apart: whether its attention tells what it used can
be measured, and is not known beforehand.
"""

from torch import Tensor
from torch.nn import functional as F

from regard.audits.planted.handed import Halves, handed
from regard.audits.planted.table import Made, register
from regard.audits.planted.texts import VOCABULARY, Texts
from regard.audits.planted.training import RATE, STEPS, fit
from regard.models.classifiers import ClassifierModel, attentive_bilstm, attentive_mlp

SMALL = {
    "vocabulary": VOCABULARY,
    "classes": 2,
    "embedding": 16,
    "dropout": 0.0,
    "word_dropout": 0.0,
    "width": 32,
}


def mlp(**more: str) -> ClassifierModel:
    """A small attentive MLP."""
    return attentive_mlp.AttentiveMLP(attentive_mlp.Config(**SMALL, **more))  # type: ignore[arg-type]


def bilstm() -> ClassifierModel:
    """A small attentive BiLSTM."""
    return attentive_bilstm.AttentiveBiLSTM(attentive_bilstm.Config(**SMALL))  # type: ignore[arg-type]


def learned(model: ClassifierModel, texts: Texts) -> ClassifierModel:
    """The model, trained to tell the classes apart."""

    def loss(tokens: Tensor, lengths: Tensor, wanted: Tensor) -> Tensor:
        return F.cross_entropy(model(tokens, lengths), wanted)

    fit(model, loss, texts, steps=STEPS, rate=RATE)
    return model


def made(model: ClassifierModel, texts: Texts) -> Made:
    """A classifier with one query, trained and handed over."""
    return Made(handed(Halves(learned(model, texts))), model=model)


@register("bounded", faithful=True)
def bounded(texts: Texts) -> Made:
    """No context, states bounded by tanh, a linear read-out; softmax."""
    return made(mlp(), texts)


@register("sparse", faithful=True)
def sparse(texts: Texts) -> Made:
    """The same with 1.5-entmax, whose weights can be 0."""
    return made(mlp(map="entmax15"), texts)


@register("bilstm", faithful=None)
def contextual(texts: Texts) -> Made:
    """A BiLSTM with attention: every state has read the whole text."""
    return made(bilstm(), texts)
