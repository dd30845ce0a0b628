"""Training the audited model's architecture again, with one thing changed.

    retrain(train, seed=…)                         the same from another seed
    retrain(train, uniform=True)                   with weights 1/n
    retrain(train, regularizers={"tie": 1})        with a regularizer; {"deceive": 1} with `forbidden` tokens
    retrain(train, hide=tokens)                    with texts in which these are unknown words
    retrain(train, against=model, strength=λ)      as an adversary (`adversary_loss`) of that model

Where there is no model of this project, there are texts and labels alone: `regard.audits.small_mlp`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from time import monotonic
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.audits.adversary_loss import adversary_loss
from regard.core.tokens import UNK
from regard.data.padding import batches_by_length, padded
from regard.models.classifiers import ClassifierModel
from regard.models.classifiers.one_query import OneQuery
from regard.models.subject import eval_mode
from regard.recording import record
from regard.tasks.case import Case, NotApplicable, Texts, Trainable
from regard.training import Training
from regard.training.optimiser import optimiser
from regard.training.schedules import rate_at

TIMED = 4  # steps that the time of a training is estimated from


class TextBatch(NamedTuple):
    """Texts to learn from."""

    rows: Tensor  # (b,): which
    tokens: Tensor  # (b, n)
    lengths: Tensor  # (b,)
    wanted: Tensor  # (b,)


def retrain(
    train: Trainable,
    *,
    seed: int = 0,
    uniform: bool = False,
    regularizers: Mapping[str, float] | None = None,
    forbidden: Sequence[int] = (),
    hide: Sequence[int] = (),
    against: ClassifierModel | None = None,
    strength: float = 0.0,
    steps: int | None = None,
) -> ClassifierModel:
    """The architecture, trained from new weights; with regularizers beside those it had."""
    model = new_model(train, seed, regularizers, forbidden)
    queries = _queries(train) if uniform else 1

    def loss(batch: TextBatch) -> Tensor:
        if against is not None:
            return adversary_loss(model, against, batch.tokens, batch.lengths, strength).sum()
        if not uniform:
            return model.loss(batch.wanted, batch.tokens, batch.lengths)
        weights = uniform_weights(batch.lengths, queries, batch.tokens.shape[1])
        with model.looking_with(weights, model.condition(batch.tokens, batch.lengths)):
            return model.loss(batch.wanted, batch.tokens, batch.lengths)

    minimise(model, batches(train, hide_tokens(train.texts, hide), seed), loss, train.training, steps, seed)
    return model


def new_model(
    train: Trainable,
    seed: int,
    regularizers: Mapping[str, float] | None = None,
    forbidden: Sequence[int] = (),
) -> ClassifierModel:
    """The architecture, not yet trained, with the regularizers the audited model had and these."""
    if train.model is None:
        raise NotApplicable("the model cannot be trained again: it is not one of this project")
    if train.model.config.pairs:
        raise NotApplicable("models for pairs of texts are not trained again here")
    had = train.model.strengths if isinstance(train.model, OneQuery) else {}
    buffers = dict(train.model.named_buffers())
    own = buffers.get("regularizers.deceive.forbidden", torch.zeros(0)).tolist()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: ClassifierModel = type(train.model)(train.model.config)
        try:
            model.add_regularizers({**had, **(regularizers or {})}, [*own, *forbidden])
        except ValueError as error:
            raise NotApplicable(str(error).rstrip(".")) from None
    if train.initialise is not None:
        train.initialise(model)
    return model.to(next(train.model.parameters()).device)


def batches(train: Trainable, texts: Texts, seed: int) -> Iterator[TextBatch]:
    """Texts alike in length together, in an order drawn anew in each epoch, without end."""
    assert train.model is not None
    device = next(train.model.parameters()).device
    lengths, generator = [len(text) for text in texts], torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(texts), generator=generator).tolist()
        groups = list(batches_by_length([lengths[i] for i in order], train.training.tokens))
        for k in torch.randperm(len(groups), generator=generator).tolist():
            rows = [order[i] for i in groups[k]]
            at = torch.tensor(rows)
            yield TextBatch(at, *padded([texts[i] for i in rows], device), train.labels[at].to(device))


def seconds(train: Trainable | None) -> float:
    """About how long one training takes; 0 if the model cannot be trained again."""
    if train is None or train.model is None or train.model.config.pairs:
        return 0.0
    model = new_model(train, 0)

    def loss(batch: TextBatch) -> Tensor:
        return model.loss(batch.wanted, batch.tokens, batch.lengths)

    minimise(model, batches(train, train.texts, 0), loss, train.training, 1, 0)  # the first step is slower
    start = monotonic()
    minimise(model, batches(train, train.texts, 0), loss, train.training, TIMED, 0)
    return (monotonic() - start) / TIMED * train.training.steps


def minimise(
    model: nn.Module,
    batches: Iterator[TextBatch],
    loss: Callable[[TextBatch], Tensor],
    training: Training,
    steps: int | None,
    seed: int,
) -> None:
    """Train on the first `steps` batches, by the settings; the global random state is left as it was."""
    steps = training.steps if steps is None else min(steps, training.steps)
    schedule = "cosine" if training.schedule == "plateau" else training.schedule  # nothing is validated
    plan = replace(training, steps=steps, warmup=min(training.warmup, steps // 5), schedule=schedule)
    adam = optimiser(model, plan)
    model.train()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        for step, batch in enumerate(islice(batches, steps), 1):
            for group in adam.param_groups:
                group["lr"] = rate_at(step, plan)
            value = loss(batch) / len(batch.rows)
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


def correct(case: Case) -> Tensor:
    """1 where the prediction is right, else 0: (N,)."""
    return (case.decision == case.known_labels).double()


def _queries(train: Trainable) -> int:
    """How many queries attend to the words."""
    model = train.model
    assert model is not None
    with eval_mode(model), torch.no_grad(), record(model, model.attention_paths["reader"]) as seen:
        model(*padded(train.texts[:1], next(model.parameters()).device))
    return model.over_words(seen).shape[1]
