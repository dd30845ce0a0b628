"""Classifiers of this project, trained as usual.

Without context, with hidden states bounded by tanh and a linear output layer, a word's share in the logits is
at most its weight times a constant: little weight, little share. So attention is faithful by construction,
with softmax and with a sparse map. A BiLSTM is listed too: whether its attention is faithful can be measured,
and is not known beforehand.
"""

from typing import Any

from regard.audits.planted.attending import Wrapper, fit, functions_of
from regard.audits.planted.kinds import Made, register
from regard.audits.planted.planted_texts import VOCABULARY, Texts
from regard.models.classifiers import CLASSIFIERS, ClassifierModel

SMALL: dict[str, Any] = {"vocabulary": VOCABULARY, "classes": 2, "embedding": 16, "width": 32}
SMALL |= {"dropout": 0.0, "word_dropout": 0.0}


def bilstm() -> ClassifierModel:
    """A small attentive BiLSTM."""
    return CLASSIFIERS["attentive_bilstm"].make(**SMALL)


def made(model: ClassifierModel, texts: Texts) -> Made:
    """A classifier with one query, trained and wrapped."""
    fit(model, texts)
    return Made(functions_of(Wrapper(model)), model=model)


@register("bounded", faithful=True)
def bounded(texts: Texts) -> Made:
    """No context, hidden states bounded by tanh, a linear output layer; softmax."""
    return made(CLASSIFIERS["attentive_mlp"].make(**SMALL), texts)


@register("sparse", faithful=True)
def sparse(texts: Texts) -> Made:
    """The same with 1.5-entmax, whose weights can be 0."""
    return made(CLASSIFIERS["attentive_mlp"].make(**SMALL, map="entmax15"), texts)


@register("bilstm", faithful=None)
def contextual(texts: Texts) -> Made:
    """A BiLSTM with attention: every hidden state has seen the whole text."""
    return made(bilstm(), texts)
