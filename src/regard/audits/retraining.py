"""Training the audited model's architecture again, with one thing changed.

    retrain(train, seed=…)                         the same from another seed
    retrain(train, regularizers={"tie": 1})        with a regularizer; {"deceive": 1} with `forbidden` tokens
    retrain(train, hide=tokens)                    with texts in which these are unknown words
    retrain(train, loss=function)                  with another loss: with weights 1/n, or of an adversary

Where there is no model of this project, there are texts and labels alone: `small_mlp` learns from these.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from time import monotonic
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.core.tokens import UNK
from regard.data.padding import batches_by_length, padded
from regard.models.classifiers import CLASSIFIERS, ClassifierModel
from regard.models.classifiers.one_query import OneQuery
from regard.tasks.case import Case, NotApplicable, Texts, Trainable
from regard.tasks.classification import ClassificationTraining
from regard.training.optimiser import optimiser
from regard.training.schedules import rate_at

TIMED = 4  # steps that the time of a training is estimated from


class TextBatch(NamedTuple):
    """Texts to learn from."""

    rows: Tensor  # (b,): which
    tokens: Tensor  # (b, n)
    lengths: Tensor  # (b,)
    wanted: Tensor  # (b,)


Loss = Callable[[ClassifierModel, TextBatch], Tensor]  # the sum over the texts


def usual_loss(model: ClassifierModel, batch: TextBatch) -> Tensor:
    """The loss that models of this project are trained with."""
    return model.loss(batch.wanted, batch.tokens, batch.lengths)


def retrain(
    train: Trainable,
    *,
    seed: int = 0,
    loss: Loss = usual_loss,
    regularizers: Mapping[str, float] | None = None,
    forbidden: Sequence[int] = (),
    hide: Sequence[int] = (),
    steps: int | None = None,
) -> ClassifierModel:
    """The architecture, trained from new weights; with regularizers beside those it had."""
    model = new_model(train, seed, regularizers, forbidden)
    minimise(model, replace(train, texts=hide_tokens(train.texts, hide)), seed, steps, loss)
    return model


def model_of(train: Trainable) -> ClassifierModel:
    """The audited model, if it can be trained again."""
    if train.model is None:
        raise NotApplicable("the model cannot be trained again: it is not one of this project")
    if train.model.config.pairs:
        raise NotApplicable("models for pairs of texts are not trained again here")
    return train.model


def new_model(
    train: Trainable,
    seed: int,
    regularizers: Mapping[str, float] | None = None,
    forbidden: Sequence[int] = (),
) -> ClassifierModel:
    """The architecture, not yet trained, with the regularizers the audited model had and these."""
    audited = model_of(train)
    had = audited.strengths if isinstance(audited, OneQuery) else {}
    buffers = dict(audited.named_buffers())
    own = buffers.get("regularizers.deceive.forbidden", torch.zeros(0)).tolist()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: ClassifierModel = type(audited)(audited.config)
        try:
            model.add_regularizers({**had, **(regularizers or {})}, [*own, *forbidden])
        except ValueError as error:
            raise NotApplicable(str(error).rstrip(".")) from None
    if train.initialise is not None:
        train.initialise(model)
    return model.to(next(audited.parameters()).device)


def batches(train: Trainable, seed: int, device: torch.device) -> Iterator[TextBatch]:
    """Texts alike in length together, in an order drawn anew in each epoch, without end."""
    lengths, generator = [len(text) for text in train.texts], torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(lengths), generator=generator).tolist()
        groups = list(batches_by_length([lengths[i] for i in order], train.training.tokens))
        for k in torch.randperm(len(groups), generator=generator).tolist():
            rows = [order[i] for i in groups[k]]
            texts, at = [train.texts[i] for i in rows], torch.tensor(rows)
            yield TextBatch(at, *padded(texts, device), train.labels[at].to(device))


def seconds(train: Trainable | None) -> float:
    """About how long one training takes; 0 if the model cannot be trained again."""
    if train is None or train.model is None or train.model.config.pairs:
        return 0.0
    model = new_model(train, 0)
    minimise(model, train, 0, 1)  # the first step is slower
    start = monotonic()
    minimise(model, train, 0, TIMED)
    return (monotonic() - start) / TIMED * train.training.steps


def minimise(
    model: ClassifierModel, train: Trainable, seed: int, steps: int | None = None, loss: Loss = usual_loss
) -> None:
    """Train for at most so many steps, by the settings; the global random state is left as it was."""
    training, device = train.training, next(model.parameters()).device
    steps = training.steps if steps is None else min(steps, training.steps)
    schedule = "cosine" if training.schedule == "plateau" else training.schedule  # nothing is validated
    plan = replace(training, steps=steps, warmup=min(training.warmup, steps // 5), schedule=schedule)
    adam = optimiser(model, plan)
    model.train()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        for step, batch in enumerate(islice(batches(train, seed, device), steps), 1):
            for group in adam.param_groups:
                group["lr"] = rate_at(step, plan)
            value = loss(model, batch) / len(batch.rows)
            if not math.isfinite(value.item()):
                raise NotApplicable(f"the loss of a model that was trained again became {value.item():.3g}")
            adam.zero_grad()
            value.backward()
            nn.utils.clip_grad_norm_(model.parameters(), plan.clip or math.inf)
            adam.step()
    model.eval()


def hide_tokens(texts: Texts, tokens: Sequence[Any]) -> Texts:
    """Texts with unknown words in the place of these tokens."""
    hidden = set(tokens)
    return [[UNK if token in hidden else token for token in text] for text in texts] if hidden else texts


def uniform_weights(lengths: Tensor, k: int, n: int) -> Tensor:
    """Weights 1/length on each token: (b, k, n)."""
    real = torch.arange(n, device=lengths.device) < lengths.unsqueeze(-1)
    return (real / lengths.unsqueeze(-1)).unsqueeze(-2).expand(-1, k, -1)


def trainable_of(case: Case) -> Trainable:
    """What a case can be trained with, checked."""
    train = case.train
    if train is None:
        raise NotApplicable("it must train, and no training texts were given")
    if len(train.texts) < 2 or len(train.labels) != len(train.texts):
        raise NotApplicable(
            f"training needs texts with a label each; there are {len(train.texts)} texts and "
            f"{len(train.labels)} labels"
        )
    return train


def correct(case: Case, decision: Tensor) -> Tensor:
    """1 where these predicted classes (N,) are right, else 0: (N,)."""
    return (decision == case.known_labels).double()


def small_mlp(texts: Texts, labels: Tensor, classes: int, vocabulary: int, *, steps: int = 500) -> Trainable:
    """What a small MLP that sees one word at a time can be trained with; texts are numbers < `vocabulary`."""
    model = CLASSIFIERS["attentive_mlp"].make(
        vocabulary=vocabulary, classes=classes, embedding=64, width=64, dropout=0.1, word_dropout=0.05
    )
    training = ClassificationTraining(steps=steps, rate=5e-3, tokens=2048)
    return Trainable(texts, labels, classes, model, training)
