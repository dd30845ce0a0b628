"""Frozen weights: are the weights of use to a model that sees one word at a time?

    value = accuracy of a small MLP that is trained with the model's weights in the place of its own
    baseline = the same with weights 1/n

A model without context can use weight on a word only for that word: weights that help it are on words that
matter by themselves. It learns from few texts, since from many it would learn with any weights. Its accuracy
with its own weights is in the details.

Wiegreffe & Pinter (2019), "Attention is not not Explanation", arXiv:1908.04626, §3.4.
"""

from dataclasses import replace

import torch

from regard.audits.finding import Finding
from regard.audits.measures import bootstrap
from regard.audits.register import register
from regard.audits.retraining import correct, retrain, trainable_of
from regard.audits.small_mlp import TokenIds, decide_with, small_mlp, train_with
from regard.tasks.case import Case, NotApplicable

MOST = 200  # training texts


@register("out of context", trains=True, trainings=0, graded="difference")  # its own trainings are small
def frozen(case: Case, *, seed: int = 0, steps: int = 150, most: int = MOST) -> Finding:
    """Train an MLP with the weights of the case."""
    train = trainable_of(case)
    own = correct(case)
    if train.model is not None and train.model.config.pairs:
        raise NotApplicable("the texts come in pairs")
    generator = torch.Generator().manual_seed(seed)
    some = torch.randperm(len(train.texts), generator=generator)[:most].tolist()
    texts, labels = [train.texts[i] for i in some], train.labels[some]
    learned = replace(case, texts=texts, labels=labels, highlights=None, words=None, train=None)
    ids = TokenIds(texts)
    mlp = small_mlp(ids(texts), labels, train.classes, len(ids), steps=steps)
    decided = {"own": Case.from_model(retrain(mlp, seed=seed), ids(case.texts)).decision}
    uniform = [
        [torch.full((len(text),), 1 / len(text), dtype=torch.float64) for text in part]
        for part in (texts, case.texts)
    ]
    for name, (before, after) in {"model": (learned.shown, case.shown), "uniform": uniform}.items():
        decided[name] = decide_with(train_with(mlp, before, seed), ids(case.texts), after)
    right = {name: decision.eq(case.known_labels).double() for name, decision in decided.items()}
    return Finding(
        float(right["model"].mean()),
        float(right["uniform"].mean()),
        bootstrap(right["model"], seed=seed),
        len(case),
        "accuracy of an MLP, which sees one word at a time, with these weights; baseline: with weights 1/n",
        details={"own weights": float(right["own"].mean()), "the model itself": float(own.mean())},
    )
