"""Uniform weights: how many decisions change if every word gets the same weight?

    value = share of texts whose class changes with α = 1/n        yardstick = share that would, if every text
                                                                   got the class that is said most often

If almost none does, the weights were not needed. Wiegreffe & Pinter (2019), "Attention is not not
Explanation", arXiv:1908.04626, §3, ask it of accuracy, and train again: `uniform_trained`.
"""

import torch
from torch import Tensor

from regard.audits.case import Batch, Case
from regard.audits.finding import Finding
from regard.audits.measures import bootstrap
from regard.audits.table import register


@register("necessary", judged="ratio")
def uniform(case: Case, *, seed: int = 0) -> Finding:
    """Give every word of a text the same weight."""
    case.changeable()
    case.several_classes()
    said = case.each(with_uniform)
    changed = (said.argmax(-1) != case.decision).double()
    usual = torch.bincount(case.decision).max() / len(case)
    details = {}
    if case.labels is not None:
        for name, decision in (("accuracy", case.decision), ("accuracy_uniform", said.argmax(-1))):
            details[name] = float((decision == case.labels).double().mean())
    return Finding(
        float(changed.mean()),
        float(1 - usual),
        bootstrap(changed, seed=seed),
        len(case),
        "share of decisions that change if all words weigh the same; yardstick: if all were the usual class",
        details=details,
    )


def with_uniform(batch: Batch) -> Tensor:
    """What is said if the weight of each query is spread evenly: (b, classes)."""
    assert batch.again is not None
    mass = batch.weights.sum(-1, keepdim=True) / batch.lengths.view(-1, 1, 1)  # (b, k, 1)
    return batch.again(mass * batch.there.unsqueeze(-2))
