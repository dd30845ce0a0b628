"""Frozen weights: are the weights of use to a model that sees one word at a time?

    value = accuracy of a small MLP that is trained with the model's weights in the place of its own
    yardstick = the same with weights 1/n

A model without context can use weight on a word only for that word: weights that help it name words that
matter by themselves. It learns from few texts, for from many it would learn with any weights. Its accuracy
with weights of its own is in the details.

Wiegreffe & Pinter (2019), "Attention is not not Explanation", arXiv:1908.04626, §3.4.
"""

from dataclasses import replace

import torch

from regard.audits.case import Case
from regard.audits.finding import Finding, NotApplicable
from regard.audits.measures import bootstrap
from regard.audits.ours import of_model
from regard.audits.small_mlp import Numbered, decided_with, even_weights, small_mlp, trained_with
from regard.audits.table import register
from regard.audits.training import accuracy_of, of_case

MOST = 200  # training texts


@register("out of context", trains=True, judged="difference")
def frozen(case: Case, *, seed: int = 0, steps: int = 150, most: int = MOST) -> Finding:
    """Train an MLP with the weights of the case."""
    train = of_case(case)
    accuracy_of(case)  # or there are no labels
    if train.model is not None and train.model.config.pairs:
        raise NotApplicable("the texts come in pairs")
    assert case.labels is not None
    generator = torch.Generator().manual_seed(seed)
    some = torch.randperm(len(train.texts), generator=generator)[:most].tolist()
    texts, labels = [train.texts[i] for i in some], train.labels[some]
    there = replace(case, texts=texts, labels=labels, highlights=None, words=None, train=None)
    number = Numbered(texts)
    mlp = small_mlp(number(texts), labels, train.classes, len(number), steps=steps)
    decided = {"own": of_model(mlp.fit(seed=seed), number(case.texts)).decision}
    for name, learned, shown in (
        ("model", there.shown, case.shown),
        ("uniform", even_weights(texts), even_weights(case.texts)),
    ):
        decided[name] = decided_with(trained_with(mlp, learned, seed), number(case.texts), shown)
    right = {name: (decision == case.labels).double() for name, decision in decided.items()}
    return Finding(
        float(right["model"].mean()),
        float(right["uniform"].mean()),
        bootstrap(right["model"], seed=seed),
        len(case),
        "accuracy of an MLP, which sees one word at a time, with these weights; yardstick: with weights 1/n",
        details={
            "own weights": float(right["own"].mean()),
            "the model itself": float(accuracy_of(case).mean()),
        },
    )


frozen.trainings = 0  # type: ignore[attr-defined]  # of the audited model; its own are small
