"""Classifiers of this project, trained as usual.

Without context, with hidden states bounded by tanh and a linear output layer, a word's share in the logits is
at most its weight times a constant: little weight, little share. So attention is faithful by construction,
with softmax and with a sparse map. A BiLSTM is listed too: whether its attention is faithful can be measured,
and is not known beforehand.
"""

from typing import Any

from regard.audits.planted.attending import Attending, Wrapper, fit
from regard.audits.planted.kinds import register
from regard.audits.planted.planted_texts import VOCABULARY, Texts
from regard.models.classifiers import CLASSIFIERS, ClassifierModel

SMALL: dict[str, Any] = {"vocabulary": VOCABULARY, "classes": 2, "embedding": 16, "width": 32}
SMALL |= {"dropout": 0.0, "word_dropout": 0.0}


def small(name: str, **more: Any) -> ClassifierModel:
    """A small classifier of this name."""
    return CLASSIFIERS[name].make(**SMALL, **more)


def trained(model: ClassifierModel, texts: Texts) -> Wrapper:
    """A classifier with one query, trained and wrapped."""
    fit(model, texts)
    return Wrapper(model)


@register("bounded", faithful=True)
def bounded(texts: Texts) -> Attending:
    """No context, hidden states bounded by tanh, a linear output layer; softmax."""
    return trained(small("attentive_mlp"), texts)


@register("sparse", faithful=True)
def sparse(texts: Texts) -> Attending:
    """The same with 1.5-entmax, whose weights can be 0."""
    return trained(small("attentive_mlp", map="entmax15"), texts)


@register("bilstm", faithful=None)
def contextual(texts: Texts) -> Attending:
    """A BiLSTM with attention: every hidden state has seen the whole text."""
    return trained(small("attentive_bilstm"), texts)
