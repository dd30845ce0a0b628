"""Removal: how many words must lose their weight before the decision flips?

    value = mean share of words whose weights are set to 0, the largest first, until the class changes
    baseline = the same in a random order

Further orders, where the model has gradients: by gradient, and by gradient × attention. A decision that never
flips counts as 1. If attention were the reason for decisions, few words would do.

Serrano & Smith (2019), "Is Attention Interpretable?", arXiv:1906.03731, §4.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import torch
from torch import Tensor

from regard.audits.finding import Finding
from regard.audits.measures import bootstrap
from regard.audits.register import register
from regard.tasks.case import Case, CaseBatch, NotApplicable, pad_rows


@register("necessary", better="lower", graded="difference")
def removal(case: Case, *, seed: int = 0) -> Finding:
    """Set weights to 0 until the decision flips."""
    case.require_intervention()
    case.require_several_classes()
    generator = torch.Generator().manual_seed(seed)
    orders: dict[str, Sequence[Tensor]] = {
        "attention": case.shown,
        "random": [torch.rand(int(n), generator=generator).double() for n in case.lengths],
    }
    with suppress(NotApplicable):
        orders["gradient"] = case.gradient
        orders["gradient × attention"] = [g * a for g, a in zip(case.gradient, case.shown, strict=True)]
    shares = {name: case.each(partial(until_flip, scores=scores)) for name, scores in orders.items()}
    return Finding(
        float(shares["attention"].mean()),
        float(shares["random"].mean()),
        bootstrap(shares["attention"], seed=seed),
        len(case),
        "share of words whose weights must be removed before the decision flips; baseline: in a random order",
        details={name: float(share.mean()) for name, share in shares.items()},
    )


def until_flip(batch: CaseBatch, scores: Sequence[Tensor]) -> Tensor:
    """Share of words (b,) to remove, the highest score first, until the class changes; 1 if never."""
    by = pad_rows([scores[i].double() for i in batch.rows.tolist()], -torch.inf)
    rank = by.argsort(dim=-1, descending=True, stable=True).argsort(-1)  # (b, n): 0 is removed first
    mass = batch.weights.sum(-1, keepdim=True)
    share = torch.ones(len(batch.rows), dtype=torch.float64)
    unflipped = torch.ones(len(batch.rows), dtype=torch.bool)
    for removed in range(1, int(batch.lengths.max())):
        kept = torch.where((rank >= removed).unsqueeze(-2), batch.weights, 0)
        sums = kept.sum(-1, keepdim=True)
        kept = torch.where(sums > 0, kept * (mass / torch.where(sums > 0, sums, 1)), 0)
        with torch.no_grad():
            changed = batch.intervene(kept).argmax(-1) != batch.decision
        flipped = unflipped & (removed < batch.lengths) & changed
        share = torch.where(flipped, removed / batch.lengths, share)
        unflipped &= ~flipped
        if not bool(unflipped.any()):
            break
    return share
