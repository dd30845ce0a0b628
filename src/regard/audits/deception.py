"""Deception: what does it cost a model not to be seen to look at the words that matter?

    trained again with − λ log(1 − αᵀm), m the words that matter most        value = accuracy that is lost
    yardstick = accuracy that is lost if the model never sees these words

A model that hides them for nothing has another way to use them. Which: through context, if states of other
words change without them and a model that sees one word at a time cannot hide them; through norms, if their
states have grown long.

The words that matter: of each of some training texts that without which the answer moves most, the most
frequent of these first, until they are four in five of all.

Pruthi et al. (2020), "Learning to Deceive with Attention-Based Explanations", arXiv:1909.07913, §3 and §6.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from regard.audits.case import Batch, Case, padded
from regard.audits.finding import Finding, NotApplicable
from regard.audits.measures import bootstrap
from regard.audits.ours import of_model
from regard.audits.small_mlp import small_mlp
from regard.audits.table import register
from regard.audits.training import Trainable, accuracy_of, hidden, of_case

LONG = 2.0  # states of hidden words that have grown so many times, compared with others, are a leak
MOVED = 0.05  # so much of their length other states must change to be one


@register("hard to manipulate", trains=True, judged="ratio")
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
    train, own = of_case(case), accuracy_of(case)
    if train.model is None:
        train.fresh(seed)  # refuses
    assert case.labels is not None and train.model is not None
    forbidden = sorted(words if words is not None else that_matter(case, train, most, seed))
    without = of_model(train.fit(hide=forbidden, seed=seed, steps=steps), hidden(case.texts, forbidden))
    needed = float(own.mean() - (without.decision == case.labels).double().mean())
    if needed <= 0.02:
        raise NotApplicable(
            f"a model that never sees the {len(forbidden)} words that matter most loses only "
            f"{100 * needed:.1f} points of accuracy: there is nothing to hide"
        )
    penalty = {"deceive": strength}
    liar = of_model(train.fit(remedies=penalty, forbidden=forbidden, seed=seed, steps=steps), case.texts)
    right = (liar.decision == case.labels).double()
    control = small_mlp(
        train.texts,
        train.labels,
        train.classes,
        train.model.config.vocabulary,
        steps=min(500, steps or train.training.steps),
    )
    plain = of_model(control.fit(remedies=penalty, forbidden=forbidden, seed=seed), case.texts)
    control_right = (plain.decision == case.labels).double()
    ratios = [length_ratio(one, forbidden) for one in (case, liar)]
    lost, kept = own - right, float(right.mean() - control_right.mean())
    before, after = ratios
    grown = before is not None and after is not None and after / before >= LONG
    reach = change_elsewhere(liar, forbidden)
    read = reach is not None and reach > MOVED and kept > needed / 2
    leaks = [name for name, there in (("context", read), ("norms", grown)) if there]
    return Finding(
        float(lost.mean()),
        needed,
        bootstrap(lost, seed=seed),
        len(case),
        f"accuracy lost by hiding {len(forbidden)} words that matter from view; yardstick: by losing them",
        details={
            "mass before": float(mass(case, forbidden).mean()),
            "mass left": float(mass(liar, forbidden).mean()),
            "accuracy": float(own.mean()),
            "accuracy deceiving": float(right.mean()),
            "accuracy without these words": float(own.mean()) - needed,
            "accuracy deceiving, one word at a time": float(control_right.mean()),
            "mass left, one word at a time": float(mass(plain, forbidden).mean()),
            "length of their states over others, before and after": ratios,
            "change of others' states without them": reach,
            "leaks through": leaks if float(lost.mean()) < needed / 2 else [],
            "words": len(forbidden),
        },
    )


def that_matter(case: Case, train: Trainable, most: int, seed: int) -> list[Any]:
    """The words that matter most in training texts."""
    some = torch.randperm(len(train.texts), generator=torch.Generator().manual_seed(seed))[:most].tolist()
    texts = [text for text in (train.texts[i] for i in some) if len(text) > 1]
    if not texts:
        raise NotApplicable("no training text has two tokens or more")
    there = replace(case, texts=texts, labels=None, highlights=None, words=None, train=None)
    tops = Counter(text[int(moved.argmax())] for text, moved in zip(texts, there.leave_one_out, strict=True))
    found: list[Any] = []
    for word, _ in tops.most_common():
        found.append(word)
        if sum(tops[word] for word in found) >= 0.8 * len(texts):
            break
    return found


def mass(case: Case, tokens: Sequence[Any]) -> torch.Tensor:
    """The weight on these tokens, in texts that have one and others too: (N',)."""
    there, found = set(tokens), []
    for text, shown in zip(case.texts, case.shown, strict=True):
        marks = torch.tensor([token in there for token in text])
        if bool(marks.any()) and not bool(marks.all()):
            found.append(shown[marks].sum())
    return torch.stack(found) if found else torch.zeros(1, dtype=torch.float64)


def length_ratio(case: Case, tokens: Sequence[Any]) -> float | None:
    """Mean length of the states of these tokens over that of the others; None if there are no states."""
    states_of, gone = case.states, set(tokens)
    if states_of is None:
        return None

    def lengths(batch: Batch) -> torch.Tensor:
        texts = [case.texts[i] for i in batch.rows.tolist()]
        long = states_of(texts, batch.rows)[0].double().norm(dim=-1)  # (b, n)
        marks = padded([torch.tensor([float(token in gone) for token in text]) for text in texts]) > 0
        both = [torch.stack([(long * at).sum(-1), at.sum(-1)], -1) for at in (marks, batch.there & ~marks)]
        return torch.stack(both, 1)  # (b, 2, 2): sum and number, of these and of others

    sums, counts = case.each(lengths).sum(0).unbind(-1)
    return float((sums[0] / counts[0]) / (sums[1] / counts[1])) if bool((counts * sums > 0).all()) else None


def change_elsewhere(case: Case, tokens: Sequence[Any]) -> float | None:
    """How far states of other tokens move if these are unknown, over their length; None without states."""
    states_of, gone = case.states, set(tokens)
    if states_of is None:
        return None

    def moved(batch: Batch) -> torch.Tensor:
        texts = [case.texts[i] for i in batch.rows.tolist()]
        before, after = (states_of(some, batch.rows)[0].double() for some in (texts, hidden(texts, tokens)))
        others = padded([torch.tensor([float(token not in gone) for token in text]) for text in texts]) > 0
        sizes = [(x.norm(dim=-1) * others).sum(-1) for x in (after - before, before)]
        return torch.stack(sizes, -1)

    change, length = case.each(moved).sum(0).tolist()
    return change / length if length > 0 else None


deception.trainings = 3  # type: ignore[attr-defined]
