"""Removal: how many words must lose their weight before the decision flips?

    value = mean share of words whose weights are set to 0, the largest first, until the class changes
    baseline = the same in a random order

Further orders, where the model has gradients: by gradient, and by gradient × attention. A decision that never
flips counts as 1. If attention were the reason for decisions, few words would do.

Serrano & Smith (2019), "Is Attention Interpretable?", arXiv:1906.03731, §4.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from regard.audits.measures import rankings
from regard.audits.register import Finding, register
from regard.audits.tests.erasure import renormalised_without
from regard.tasks.case import Case, CaseBatch, pad_rows


@register("necessary", better="lower", graded="difference")
def removal(case: Case, *, seed: int = 0) -> Finding:
    """Set weights to 0 until the decision flips."""
    case.require_intervention()
    case.require_several_classes()
    orders = rankings(case, torch.Generator().manual_seed(seed))
    if "gradient" in orders:
        orders["gradient × attention"] = [g * a for g, a in zip(case.gradient, case.shown, strict=True)]
    shares = {name: case.each(partial(until_flip, scores=scores)) for name, scores in orders.items()}
    details = {name: share.mean() for name, share in shares.items()}
    says = (
        "share of words whose weights must be removed before the decision flips; baseline: in a random order"
    )
    return Finding.of(shares["attention"], shares["random"], says, seed, details)


def until_flip(batch: CaseBatch, scores: Sequence[Tensor]) -> Tensor:
    """Share of words (b,) to remove, the highest score first, until the class changes; 1 if never."""
    by = pad_rows([scores[i].double() for i in batch.rows.tolist()], -torch.inf)
    rank = by.argsort(dim=-1, descending=True, stable=True).argsort(-1)  # (b, n): 0 is removed first
    share = torch.ones(len(batch.rows), dtype=torch.float64)
    unflipped = torch.ones(len(batch.rows), dtype=torch.bool)
    for removed in range(1, int(batch.lengths.max())):
        with torch.no_grad():
            found = batch.intervene(renormalised_without(batch.weights, rank < removed))
        changed = found.argmax(-1) != batch.decision
        flipped = unflipped & (removed < batch.lengths) & changed
        share = torch.where(flipped, removed / batch.lengths, share)
        unflipped &= ~flipped
        if not bool(unflipped.any()):
            break
    return share
