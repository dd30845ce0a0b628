"""Uniform weights: how many decisions change if every word gets the same weight?

    value = share of texts whose class changes with α = 1/n
    baseline = share of texts that do not have the most frequent predicted class

If almost none does, the weights were not needed. Wiegreffe & Pinter (2019), "Attention is not not
Explanation", arXiv:1908.04626, §3, measure accuracy, and train again: `uniform_trained`.
"""

import torch
from torch import Tensor

from regard.audits.finding import Finding
from regard.audits.measures import bootstrap
from regard.audits.register import register
from regard.tasks.case import Case, CaseBatch


@register("necessary", graded="ratio")
def uniform(case: Case, *, seed: int = 0) -> Finding:
    """Give every word of a text the same weight."""
    case.require_intervention()
    case.require_several_classes()
    decision = case.each(with_uniform).argmax(-1)
    changed = (decision != case.decision).double()
    most_frequent = torch.bincount(case.decision).max() / len(case)
    details = {}
    if case.labels is not None:
        for name, one in (("accuracy", case.decision), ("accuracy_uniform", decision)):
            details[name] = float((one == case.labels).double().mean())
    return Finding(
        float(changed.mean()),
        float(1 - most_frequent),
        bootstrap(changed, seed=seed),
        len(case),
        "share of decisions that change with uniform weights; baseline: if all became the most frequent one",
        details=details,
    )


def with_uniform(batch: CaseBatch) -> Tensor:
    """Predictions if the weight of each query is spread evenly: (b, classes)."""
    mass = batch.weights.sum(-1, keepdim=True) / batch.lengths.view(-1, 1, 1)  # (b, k, 1)
    return batch.intervene(mass * batch.real.unsqueeze(-2))
