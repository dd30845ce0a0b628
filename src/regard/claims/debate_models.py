"""What the claims of the debate share: the models of a seed, each trained once, as cases of the audit.

Texts of `sentiment` (24 words, one to three of their class and, if there are more than one, one of the
other), 4,000 to learn from and 300 others; `attentive_bilstm` and `attentive_mlp`, embedding and width 32, no
dropout (with it the MLP has a τ of .4 with seed 100, without it .6), 300 steps of 64 texts, Adam with 10⁻²
and a cosine. Words of feeling are gold highlights, and what deception forbids. Every comparison has the same
texts, steps and batches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.audits import AUDITS, Case, NotApplicable
from regard.audits.retraining import uniform_weights
from regard.audits.tests.trained_adversary import adversary_loss
from regard.claims.quick import QUICK, few, remembered, sized
from regard.claims.toy_pairs import train
from regard.claims.toy_texts import Encoded, Texts, class_loss, from_file
from regard.core.bridges import prefix_of
from regard.core.tokens import UNK
from regard.data.corpora.sentiment import NEGATIVE, POSITIVE, sentiment
from regard.models.classifiers import CLASSIFIERS
from regard.models.classifiers.regularizers.tie import tie_distance
from regard.runs.folder import open_system
from regard.swap import swap
from regard.tasks.classifier import Classifier

SMALL = {"embedding": 32, "width": 32, "dropout": 0.0, "word_dropout": 0.0}
STEPS, RATE, ITEMS = 300, 1e-2, 300
BILSTM, MLP = "attentive_bilstm", "attentive_mlp"
Strengths = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Which:
    """A model of a seed: plain, or trained otherwise, with regularizers, another map, a user's texts."""

    name: str
    seed: int
    kind: str = "plain"
    remedies: Strengths = ()
    settings: tuple[tuple[str, Any], ...] = ()
    data: str | None = None


def which(name: str, seed: int, map: str = "softmax", data: str | None = None, **more: Any) -> Which:
    """The model, with a map and texts of the user's choice."""
    settings = () if map == "softmax" else (("map", map),)
    return Which(name, seed, settings=settings, data=data, **more)


def check(model: str) -> str:
    """The name of a classifier that looks at words, or hf:PATH; an error names those there are."""
    if trained_elsewhere(model):
        return model
    if model not in CLASSIFIERS or not model.startswith("attentive"):
        names = ", ".join(name for name in CLASSIFIERS if name.startswith("attentive"))
        raise ValueError(
            f"--model must be a classifier with one attention over words, {names}, or hf:PATH; got {model!r}."
        )
    return model


def trained_elsewhere(model: str) -> bool:
    """Whether a model is of another library, as hf:PATH is: it was trained elsewhere."""
    return bool(prefix_of(Path(model)))


@remembered
def texts(seed: int, data: str | None = None) -> Texts:
    """The texts of a seed, or those of a file."""
    return Texts(partial(sentiment, seed) if data is None else from_file(data))


def feeling(data: Texts) -> list[int]:
    """The tokens of words of feeling."""
    return [data.ids[word] for word in POSITIVE + NEGATIVE if word in data.ids]


def hidden(data: Texts, part: Encoded) -> Encoded:
    """Texts with unknown words in the place of words of feeling."""
    gone = torch.isin(part.tokens, torch.tensor(feeling(data)))
    return part._replace(tokens=part.tokens.masked_fill(gone, UNK))


def new(one: Which) -> Any:
    """The model before training."""
    if trained_elsewhere(one.name):
        raise NotApplicable(f"{one.name} was trained elsewhere, and this trains models")
    data = texts(one.seed, one.data)
    torch.manual_seed(one.seed)
    model: Any = CLASSIFIERS[one.name].make(**data.sizes, **(SMALL | dict(one.settings)))
    model.add_regularizers(dict(one.remedies), feeling(data))
    return model


def uniform_loss(model: Any, batch: Encoded) -> Tensor:
    """The loss with weights 1/n."""
    with model.looking_with(uniform_weights(batch.lengths, 1, batch.tokens.shape[1])):
        return class_loss(model, batch)


def pushed_apart(model: Any, batch: Encoded) -> Tensor:
    """The loss with the tie's sign the wrong way round."""
    vectors = model.embed(batch.tokens)
    states = model.states(vectors, batch.lengths)
    apart = tie_distance(states, vectors, batch.lengths).mean()
    return class_loss(model, batch) - apart.clamp(max=1000)


@remembered
def fitted(one: Which) -> Any:
    """The trained model: "plain", or with "uniform" weights, words of feeling "hidden", states "apart"."""
    data, model = texts(one.seed, one.data), new(one)
    batches: Iterator[Encoded] = data.batches(one.seed)
    if one.kind == "hidden":
        batches = (hidden(data, batch) for batch in data.batches(one.seed))
    loss = {"uniform": uniform_loss, "apart": pushed_apart}.get(one.kind, class_loss)
    train(model, batches, STEPS, RATE, loss=loss)
    return model


@remembered
def deceiving_late(seed: int, clean: int = 400, steps: int = 400) -> Any:
    """An MLP without tanh that learns the class first, and to hide the words of feeling after that."""
    data, batches = texts(seed), texts(seed).batches(seed)
    model = new(Which(MLP, seed, settings=(("activation", "none"),)))
    train(model, batches, clean, RATE, loss=class_loss)
    model.add_regularizers({"deceive": 1.0}, feeling(data))
    train(model, batches, steps, RATE, loss=class_loss)
    return model


@remembered
def adversary_of(one: Which, strength: float) -> Any:
    """A model trained to answer as this one and to look elsewhere."""
    base = fitted(one)
    model = new(Which(one.name, one.seed, settings=one.settings, data=one.data))
    torch.manual_seed(one.seed + 1000)
    model = type(model)(model.config)

    def loss(model: Any, batch: Encoded) -> Tensor:
        return adversary_loss(model, base, batch.tokens, batch.lengths, strength).mean()

    train(model, texts(one.seed, one.data).batches(one.seed), STEPS, RATE, loss=loss)
    return model


def tried(seed: int, data: str | None = None) -> Encoded:
    """The 300 texts that models are asked about."""
    return texts(seed, data).test.some(slice(sized(ITEMS, 16)))


def case_of(model: Any, part: Encoded) -> Case:
    """A model with texts, for the tests of the audit."""
    rows = [row[:n].tolist() for row, n in zip(part.tokens, part.lengths, strict=True)]
    marks = [row[:n].tolist() for row, n in zip(part.gold, part.lengths, strict=True)]
    return Case.from_model(model, rows, labels=part.wanted, highlights=marks)


def foreign_case(one: Which) -> Case:
    """A classifier that was trained elsewhere, with the same texts, as it cuts them."""
    system = open_system(Path(one.name))
    if not isinstance(system, Classifier):
        raise ValueError(f"--model {one.name} is no classifier, which this claim is about.")
    if settings := dict(one.settings):
        swap(system.model, settings["map"])
    corpus = partial(sentiment, one.seed) if one.data is None else from_file(one.data)
    return system.case(list(islice(corpus("test"), sized(ITEMS, 16))))


@remembered
def case(one: Which) -> Case:
    """The case of the trained model."""
    if trained_elsewhere(one.name):
        return foreign_case(one)
    return case_of(fitted(one), tried(one.seed, one.data))


@remembered
def finding(test: str, one: Which) -> Any:
    """What a test of the audit finds."""
    less = {"steps": few(300), "draws": sized(100, 3)} if test == "adversary" and QUICK.get() else {}
    return AUDITS[test](case(one), seed=one.seed, **less)


def value_of(test: str, one: Which) -> float:
    """The value of what a test finds; NaN if it cannot be asked, as of a model that says the same of all."""
    try:
        return float(finding(test, one).value)
    except NotApplicable:
        return float("nan")


def right(made: Case) -> float:
    """The share of decisions that are right."""
    assert made.labels is not None
    return float((made.decision == made.labels).double().mean())
