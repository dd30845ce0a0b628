"""Training again: the audited model's architecture, with one thing changed.

    fit(seed=…)                          the same from another beginning
    fit(uniform=True)                    with weights 1/n
    fit(remedies={"tie": 1})             with a remedy; {"deceive": 1} with `forbidden` tokens
    fit(hide=tokens)                     with texts in which these are unknown words
    fit(against=model, strength=λ)       as an adversary: TVD(ŷ_a, ŷ_b) − λ KL(α_a ‖ α_b), b being that model

Where there is no model of this project, texts and labels alone are there: `regard.audits.small_mlp`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from time import monotonic
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.audits.case import Case, Texts
from regard.audits.finding import NotApplicable
from regard.audits.looking_elsewhere import looking_elsewhere
from regard.audits.ours import quiet
from regard.core.tokens import UNK
from regard.recording import record
from regard.models.classifiers import ClassifierModel as Model
from regard.runs.classifier import together
from regard.runs.classifier_settings import ClassifierTraining
from regard.runs.translator import batches_by_length
from regard.training import Training
from regard.training.optimiser import optimiser
from regard.training.schedules import rate_at


class Some(NamedTuple):
    """A batch."""

    rows: Tensor  # (b,): which texts
    tokens: Tensor  # (b, n)
    lengths: Tensor  # (b,)
    wanted: Tensor  # (b,)


@dataclass(frozen=True, eq=False)
class Trainable:
    """Texts to learn from, and how the audited model learned."""

    texts: Texts
    labels: Tensor  # (N,)
    classes: int
    model: Model | None = None  # the audited one, if it is of this project
    training: Training = field(default_factory=ClassifierTraining)
    begin: Callable[[Model], None] | None = None  # what a new model is given first, as vectors of words
    known: dict[Any, Model] = field(default_factory=dict)  # what was fitted before

    def fit(
        self,
        *,
        seed: int = 0,
        uniform: bool = False,
        remedies: Mapping[str, float] | None = None,
        forbidden: Sequence[int] = (),
        hide: Sequence[int] = (),
        against: Model | None = None,
        strength: float = 0.0,
        steps: int | None = None,
    ) -> Model:
        """The architecture, trained anew; with remedies beside those it had."""
        added, one, other = dict(remedies or {}), sorted(set(forbidden)), sorted(set(hide))
        key = (seed, uniform, *added.items(), tuple(one), tuple(other), against, strength, steps)
        if key not in self.known:
            model, queries = self.fresh(seed, added, one), self.queries if uniform else 1
            texts = hidden(self.texts, other)

            def loss(some: Some) -> Tensor:
                if against is not None:
                    return looking_elsewhere(model, against, some.tokens, some.lengths, strength).sum()
                if not uniform:
                    return model.loss(some.wanted, some.tokens, some.lengths)
                weights = even(some.lengths, queries, some.tokens.shape[1])
                with model.looking_with(weights, model.condition(some.tokens, some.lengths)):
                    return model.loss(some.wanted, some.tokens, some.lengths)

            learn(model, self.batches(texts, seed), loss, self.training, steps, seed)
            self.known[key] = model
        return self.known[key]

    def fresh(
        self, seed: int, remedies: Mapping[str, float] | None = None, forbidden: Sequence[int] = ()
    ) -> Model:
        """The architecture, not yet trained, with the remedies the audited model had and these."""
        if self.model is None:
            raise NotApplicable("the model cannot be trained again: it is not one of this project")
        if self.model.config.pairs:
            raise NotApplicable("models for pairs of texts are not trained again here")
        had = getattr(self.model, "strengths", {})
        hers = dict(self.model.named_buffers()).get("regularizers.deceive.forbidden", torch.zeros(0)).tolist()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model: Model = type(self.model)(self.model.config)
            try:
                model.add_regularizers({**had, **(remedies or {})}, [*hers, *forbidden])
            except ValueError as error:
                raise NotApplicable(str(error).rstrip(".")) from None
        if self.begin is not None:
            self.begin(model)
        return model.to(next(self.model.parameters()).device)

    def batches(self, texts: Texts, seed: int) -> Iterator[Some]:
        """Texts alike in length together, in an order drawn anew in each epoch, without end."""
        assert self.model is not None
        lengths, generator = [len(text) for text in texts], torch.Generator().manual_seed(seed)
        while True:
            order = torch.randperm(len(texts), generator=generator).tolist()
            groups = list(batches_by_length([lengths[i] for i in order], self.training.tokens))
            for k in torch.randperm(len(groups), generator=generator).tolist():
                rows = [order[i] for i in groups[k]]
                tokens, sizes = together([texts[i] for i in rows], self.model)
                at = torch.tensor(rows)
                yield Some(at, tokens, sizes, self.labels[at].to(tokens.device))

    @cached_property
    def queries(self) -> int:
        """How many queries look over the words."""
        assert self.model is not None
        with (
            quiet(self.model),
            torch.no_grad(),
            record(self.model, self.model.attention_paths["reader"]) as seen,
        ):
            self.model(*together(self.texts[:1], self.model))
        return self.model.over_words(seen).shape[1]

    @cached_property
    def seconds(self) -> float:
        """About how long one training takes."""
        if self.model is None or self.model.config.pairs:
            return 0.0
        model, tried = self.fresh(0), 4

        def loss(some: Some) -> Tensor:
            return model.loss(some.wanted, some.tokens, some.lengths)

        learn(model, self.batches(self.texts, 0), loss, self.training, 1, 0)  # the first step is slower
        begun = monotonic()
        learn(model, self.batches(self.texts, 0), loss, self.training, tried, 0)
        return (monotonic() - begun) / tried * self.training.steps


def learn(
    model: nn.Module,
    batches: Iterator[Some],
    loss: Callable[[Some], Tensor],
    training: Training,
    steps: int | None,
    seed: int,
) -> None:
    """Train on the first `steps` batches, as the settings say; the random numbers of others stay theirs."""
    steps = training.steps if steps is None else min(steps, training.steps)
    schedule = "cosine" if training.schedule == "plateau" else training.schedule  # nothing is validated
    plan = replace(training, steps=steps, warmup=min(training.warmup, steps // 5), schedule=schedule)
    adam = optimiser(model, plan)
    model.train()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        for step, some in enumerate(islice(batches, steps), 1):
            for group in adam.param_groups:
                group["lr"] = rate_at(step, plan)
            value = loss(some) / len(some.rows)
            if not math.isfinite(value.item()):
                raise NotApplicable(f"the loss of a model that was trained again became {value.item():.3g}")
            adam.zero_grad()
            value.backward()
            nn.utils.clip_grad_norm_(model.parameters(), plan.clip or math.inf)
            adam.step()
    model.eval()


def hidden(texts: Texts, tokens: Sequence[Any]) -> Texts:
    """Texts with unknown words in the place of these."""
    gone = set(tokens)
    return [[UNK if token in gone else token for token in text] for text in texts] if gone else texts


def even(lengths: Tensor, k: int, n: int) -> Tensor:
    """Weights 1/length on each word: (b, k, n)."""
    there = torch.arange(n, device=lengths.device) < lengths.unsqueeze(-1)
    return (there / lengths.unsqueeze(-1)).unsqueeze(-2).expand(-1, k, -1)


def of_case(case: Case) -> Trainable:
    """What a case can be trained with, checked."""
    train = case.train
    if not isinstance(train, Trainable):
        raise NotApplicable("it must train, and no training texts were given")
    if len(train.texts) < 2 or len(train.labels) != len(train.texts):
        raise NotApplicable(
            f"training needs texts with a label each; there are {len(train.texts)} texts and "
            f"{len(train.labels)} labels"
        )
    return train


def accuracy_of(case: Case) -> Tensor:
    """1 where what the case says is right, else 0: (N,)."""
    if case.labels is None:
        raise NotApplicable("the right classes of the texts were not given")
    return (case.decision == case.labels).double()
