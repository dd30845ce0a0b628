"""Deception: what does it cost a model to hide its attention to the words that matter?

    trained again with − λ log(1 − αᵀm), m the words that matter most        value = accuracy that is lost
    baseline = accuracy that is lost if the model never sees these words

A model that hides them at no cost has another way to use them. Which: through context, if hidden states of
other words change without them and a model that sees one word at a time cannot hide them; through norms, if
their hidden states have become long.

The words that matter: of each of some training texts the one without which the prediction changes most, the
most frequent of these first, until they are four in five of all.

Pruthi et al. (2020), "Learning to Deceive with Attention-Based Explanations", arXiv:1909.07913, §3 and §6.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.audits.register import Finding, register
from regard.audits.retraining import correct, hide_tokens, model_of, retrain, small_mlp, trainable_of
from regard.tasks.case import Case, CaseBatch, NotApplicable, Trainable, pad_rows

LONG = 2.0  # hidden states of these words that grow by this factor, compared with others, are a leak
MOVED = 0.05  # other hidden states that change by this share of their length are a leak


@register("hard to manipulate", trains=True, trainings=3, graded="ratio")
def deception(
    case: Case,
    *,
    seed: int = 0,
    words: Sequence[Any] | None = None,
    strength: float = 1.0,
    steps: int | None = None,
    most: int = 500,
) -> Finding:
    """Train again with a penalty for weight on the words that matter."""
    train, own = trainable_of(case), correct(case, case.decision)
    vocabulary = model_of(train).config.vocabulary
    forbidden = sorted(words if words is not None else that_matter(case, train, most, seed))
    without = retrain(train, hide=forbidden, seed=seed, steps=steps)
    blind = Case.from_model(without, hide_tokens(case.texts, forbidden))
    needed = float(own.mean() - correct(case, blind.decision).mean())
    if needed <= 0.02:
        raise NotApplicable(
            f"a model that never sees the {len(forbidden)} words that matter most loses only "
            f"{100 * needed:.1f} points of accuracy: there is nothing to hide"
        )
    penalty: dict[str, Any] = {"regularizers": {"deceive": strength}, "forbidden": forbidden, "seed": seed}
    deceptive = Case.from_model(retrain(train, **penalty, steps=steps), case.texts)
    few = min(500, steps or train.training.steps)
    mlp = small_mlp(train.texts, train.labels, train.classes, vocabulary, steps=few)
    control = Case.from_model(retrain(mlp, **penalty), case.texts)
    right, control_right = (correct(case, one.decision) for one in (deceptive, control))
    lost, kept = own - right, float(right.mean() - control_right.mean())
    before, after = (length_ratio(one, forbidden) for one in (case, deceptive))
    by_norms = before is not None and after is not None and after / before >= LONG
    change = change_elsewhere(deceptive, forbidden)
    by_context = change is not None and change > MOVED and kept > needed / 2
    leaks = [name for name, there in (("context", by_context), ("norms", by_norms)) if there]
    says = (
        f"accuracy lost by hiding attention to {len(forbidden)} words that matter; baseline: by losing them"
    )
    details = {
        "mass before": mass(case, forbidden).mean(),
        "mass left": mass(deceptive, forbidden).mean(),
        "accuracy": own.mean(),
        "accuracy deceiving": right.mean(),
        "accuracy without these words": float(own.mean()) - needed,
        "accuracy deceiving, one word at a time": control_right.mean(),
        "mass left, one word at a time": mass(control, forbidden).mean(),
        "length of their states over others, before and after": [before, after],
        "change of others' states without them": change,
        "leaks through": leaks if float(lost.mean()) < needed / 2 else [],
        "words": len(forbidden),
    }
    return Finding.of(lost, needed, says, seed, details)


def that_matter(case: Case, train: Trainable, most: int, seed: int) -> list[Any]:
    """The words that matter most in training texts."""
    some = torch.randperm(len(train.texts), generator=torch.Generator().manual_seed(seed))[:most].tolist()
    texts = [text for text in (train.texts[i] for i in some) if len(text) > 1]
    if not texts:
        raise NotApplicable("no training text has two tokens or more")
    learned = replace(case, texts=texts, labels=None, highlights=None, words=None, train=None)
    tops = Counter(
        text[int(moved.argmax())] for text, moved in zip(texts, learned.leave_one_out, strict=True)
    )
    found: list[Any] = []
    for word, _ in tops.most_common():
        found.append(word)
        if sum(tops[word] for word in found) >= 0.8 * len(texts):
            break
    return found


def mass(case: Case, tokens: Sequence[Any]) -> Tensor:
    """The weight on these tokens, in texts that have one and others too: (N',)."""
    these, found = set(tokens), []
    for text, shown in zip(case.texts, case.shown, strict=True):
        marks = torch.tensor([token in these for token in text])
        if bool(marks.any()) and not bool(marks.all()):
            found.append(shown[marks].sum())
    return torch.stack(found) if found else torch.zeros(1, dtype=torch.float64)


def length_ratio(case: Case, tokens: Sequence[Any]) -> float | None:
    """Mean length of the hidden states of these tokens over that of the others; None without any."""
    states_of = case.states
    if states_of is None:
        return None

    def lengths(batch: CaseBatch) -> Tensor:
        texts = case.texts_of(batch)
        norms = states_of(texts, batch.rows)[0].double().norm(dim=-1)  # (b, n)
        marks = _marked(texts, tokens)
        both = [torch.stack([(norms * at).sum(-1), at.sum(-1)], -1) for at in (marks, batch.real & ~marks)]
        return torch.stack(both, 1)  # (b, 2, 2): sum and number, of these and of others

    sums, counts = case.each(lengths).sum(0).unbind(-1)
    return float((sums[0] / counts[0]) / (sums[1] / counts[1])) if bool((counts * sums > 0).all()) else None


def change_elsewhere(case: Case, tokens: Sequence[Any]) -> float | None:
    """How far hidden states of other tokens move if these are unknown, over their length, or None."""
    states_of = case.states
    if states_of is None:
        return None

    def moved(batch: CaseBatch) -> Tensor:
        texts = case.texts_of(batch)
        before, after = (
            states_of(some, batch.rows)[0].double() for some in (texts, hide_tokens(texts, tokens))
        )
        others = batch.real & ~_marked(texts, tokens)
        sizes = [(x.norm(dim=-1) * others).sum(-1) for x in (after - before, before)]
        return torch.stack(sizes, -1)

    change, length = case.each(moved).sum(0).tolist()
    return change / length if length > 0 else None


def _marked(texts: Sequence[Sequence[Any]], tokens: Sequence[Any]) -> Tensor:
    """True where a text has one of these tokens: (b, n)."""
    these = set(tokens)
    return pad_rows([torch.tensor([float(token in these) for token in text]) for text in texts]) > 0
