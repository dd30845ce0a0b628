"""Uniform weights: how many decisions change if every word gets the same weight?

    value = share of texts whose class changes with α = 1/n
    baseline = share of texts that do not have the most frequent predicted class

If almost none does, the weights were not needed. Wiegreffe & Pinter (2019), "Attention is not not
Explanation", arXiv:1908.04626, §3, measure accuracy, and train again: `uniform_trained`.
"""

import torch
from torch import Tensor

from regard.audits.register import Finding, register
from regard.tasks.case import Case, CaseBatch


@register("necessary", graded="ratio")
def uniform(case: Case, *, seed: int = 0) -> Finding:
    """Give every word of a text the same weight."""
    case.require_intervention()
    case.require_several_classes()

    def spread_evenly(batch: CaseBatch) -> Tensor:
        mass = batch.weights.sum(-1, keepdim=True) / batch.lengths.view(-1, 1, 1)  # (b, k, 1)
        return batch.intervene(mass * batch.real.unsqueeze(-2))

    decision = case.each(spread_evenly).argmax(-1)
    most_frequent = torch.bincount(case.decision).max() / len(case)
    details = {}
    if case.labels is not None:
        for name, one in (("accuracy", case.decision), ("accuracy_uniform", decision)):
            details[name] = (one == case.labels).double().mean()
    says = (
        "share of decisions that change with uniform weights; baseline: if all became the most frequent one"
    )
    return Finding.of(decision != case.decision, 1 - most_frequent, says, seed, details)
