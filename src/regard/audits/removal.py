"""Removal: how many words must lose their weight before the decision flips?

    value = mean share of words whose weights are removed, the largest first, until the class changes
    yardstick = the same in a random order

Further orders, where the model has gradients: by gradient, and by gradient × attention. A decision that never
flips counts as 1. If attention were the reason of decisions, few words would do.

Serrano & Smith (2019), "Is Attention Interpretable?", arXiv:1906.03731, §4.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.audits.case import Batch, Case, padded
from regard.audits.finding import Finding, NotApplicable
from regard.audits.measures import bootstrap
from regard.audits.table import register


@register("necessary", better="lower", judged="difference")
def removal(case: Case, *, seed: int = 0) -> Finding:
    """Remove weights until the decision flips."""
    case.changeable()
    case.several_classes()
    generator = torch.Generator().manual_seed(seed)
    orders: dict[str, Sequence[Tensor]] = {
        "attention": case.shown,
        "random": [torch.rand(int(n), generator=generator).double() for n in case.lengths],
    }
    try:
        orders["gradient"] = case.gradient
        orders["gradient × attention"] = [g * a for g, a in zip(case.gradient, case.shown, strict=True)]
    except NotApplicable:
        pass
    shares = {name: case.each(lambda batch, by=by: until_flip(batch, by)) for name, by in orders.items()}  # type: ignore[misc]
    return Finding(
        float(shares["attention"].mean()),
        float(shares["random"].mean()),
        bootstrap(shares["attention"], seed=seed),
        len(case),
        "share of words whose weights must go before the decision flips; yardstick: in a random order",
        details={name: float(share.mean()) for name, share in shares.items()},
    )


def until_flip(batch: Batch, scores: Sequence[Tensor]) -> Tensor:
    """Share of words (b,) to remove, the highest score first, until the class changes; 1 if never."""
    assert batch.again is not None
    by = padded([scores[i].double() for i in batch.rows.tolist()], -torch.inf)
    rank = by.argsort(dim=-1, descending=True, stable=True).argsort(-1)  # (b, n): 0 goes first
    mass = batch.weights.sum(-1, keepdim=True)
    share = torch.ones(len(batch.rows), dtype=torch.float64)
    open_ = torch.ones(len(batch.rows), dtype=torch.bool)
    for gone in range(1, int(batch.lengths.max())):
        kept = torch.where((rank >= gone).unsqueeze(-2), batch.weights, 0)
        sums = kept.sum(-1, keepdim=True)
        kept = torch.where(sums > 0, kept * (mass / torch.where(sums > 0, sums, 1)), 0)
        with torch.no_grad():
            flipped = open_ & (gone < batch.lengths) & (batch.again(kept).argmax(-1) != batch.decision)
        share = torch.where(flipped, gone / batch.lengths, share)
        open_ &= ~flipped
        if not bool(open_.any()):
            break
    return share
