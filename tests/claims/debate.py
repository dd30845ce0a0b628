"""What the experiments on the debate have in common: the models of a seed, each trained once, as cases.

Texts of `sentiment` (24 words, one to three of their class and, if there are more than one, one of the
other), 4,000 to learn from and 300 others; `attentive_bilstm` and `attentive_mlp`, embedding and width 32, no
dropout (with it the MLP has a τ of .4 with seed 100, without it .6), 300 steps of 64 texts, Adam with 10⁻²
and a cosine. Words of feeling are gold highlights, and what deception forbids. Every comparison has the same
texts, steps and batches.
"""

from functools import cache, partial

import torch

from claims.experiment import train
from claims.texts import Texts, loss
from regard.audits import AUDITS, Case
from regard.audits.retraining import uniform_weights
from regard.audits.tests.trained_adversary import adversary_loss
from regard.core.tokens import UNK
from regard.data.corpora.sentiment import NEGATIVE, POSITIVE, sentiment
from regard.models.classifiers import CLASSIFIERS
from regard.models.classifiers.regularizers.tie import tie_distance

SMALL = {"embedding": 32, "width": 32, "dropout": 0.0, "word_dropout": 0.0}
STEPS, RATE, ITEMS = 300, 1e-2, 300
BILSTM, MLP = "attentive_bilstm", "attentive_mlp"


@cache
def texts(seed):
    return Texts(partial(sentiment, seed))


def feeling(data):
    """The tokens of words of feeling."""
    return [data.ids[word] for word in POSITIVE + NEGATIVE if word in data.ids]


def hidden(data, part):
    """Texts with unknown words in the place of words of feeling."""
    gone = torch.isin(part.tokens, torch.tensor(feeling(data)))
    return part._replace(tokens=part.tokens.masked_fill(gone, UNK))


def new(name, seed, remedies=(), **settings):
    data = texts(seed)
    torch.manual_seed(seed)
    model = CLASSIFIERS[name].make(**data.sizes, **SMALL, **settings)
    model.add_regularizers(dict(remedies), feeling(data))
    return model


def uniform(model, batch):
    with model.looking_with(uniform_weights(batch.lengths, 1, batch.tokens.shape[1])):
        return loss(model, batch)


def pushed_apart(strength, model, batch):
    """The loss with the tie's sign the wrong way round."""
    vectors = model.embed(batch.tokens)
    states = model.states(vectors, batch.lengths)
    apart = tie_distance(states, vectors, batch.lengths).mean()
    return loss(model, batch) - strength * apart.clamp(max=1000)


@cache
def fitted(name, seed, kind="plain", remedies=(), steps=STEPS, **settings):
    """A trained model: plain, or with uniform weights, without words of feeling, …"""
    data, model = texts(seed), new(name, seed, remedies, **settings)
    batches = data.batches(seed)
    if kind == "hidden":
        batches = (hidden(data, batch) for batch in batches)
    way = {"uniform": uniform, "apart": partial(pushed_apart, 1.0)}.get(kind, loss)
    train(model, batches, steps, RATE, loss=way)
    return model


@cache
def deceiving_late(seed, clean=400, steps=400):
    """An MLP without tanh that learns the class first, and to hide the words of feeling after that."""
    data, batches = texts(seed), texts(seed).batches(seed)
    model = new(MLP, seed, activation="none")
    train(model, batches, clean, RATE, loss=loss)
    model.add_regularizers({"deceive": 1.0}, feeling(data))
    train(model, batches, steps, RATE, loss=loss)
    return model


@cache
def looks_elsewhere(name, seed, strength, steps=STEPS):
    """An adversary of the plain model."""
    base, model = fitted(name, seed), new(name, seed + 1000)

    def way(model, batch):
        return adversary_loss(model, base, batch.tokens, batch.lengths, strength).mean()

    train(model, texts(seed).batches(seed), steps, RATE, loss=way)
    return model


def case_of(model, seed, part=None):
    part = texts(seed).test.some(slice(ITEMS)) if part is None else part
    rows = [row[:n].tolist() for row, n in zip(part.tokens, part.lengths, strict=True)]
    marks = [row[:n].tolist() for row, n in zip(part.gold, part.lengths, strict=True)]
    case = Case.from_model(model, rows, labels=part.wanted, highlights=marks)
    return case


@cache
def case(name, seed, *more, **settings):
    return case_of(fitted(name, seed, *more, **settings), seed)


@cache
def finding(test, name, seed, *more, **settings):
    """What a test of the audit finds."""
    return AUDITS[test](case(name, seed, *more, **settings), seed=seed)


def accuracy(made):
    return float((made.decision == made.labels).double().mean())
