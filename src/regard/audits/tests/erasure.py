"""Erasure: does the decision flip without the word that has the most weight?

    value = share of texts whose class changes if the largest weight is 0 and the rest is renormalised
    baseline = the same for another word, drawn at random

Serrano & Smith (2019), "Is Attention Interpretable?", arXiv:1906.03731, §3. Where one word has all the weight
there is no rest: every weight is then 0.
"""

import torch
from torch import Tensor

from regard.audits.finding import Finding
from regard.audits.measures import bootstrap, jsd
from regard.audits.register import register
from regard.tasks.case import Case, CaseBatch


@register("necessary", graded="difference")
def erasure(case: Case, *, seed: int = 0) -> Finding:
    """Set the largest weight to 0, or that of another word."""
    case.require_intervention()
    case.require_several_classes()
    longer = case.longer
    generator = torch.Generator().manual_seed(seed)

    def flips(batch: CaseBatch) -> Tensor:
        top = batch.shown.argmax(-1, keepdim=True)  # (b, 1)
        chance = torch.rand(batch.real.shape, generator=generator)
        other = torch.where(batch.real, chance, -1.0).scatter(-1, top, -1.0).argmax(-1, keepdim=True)
        both = [batch.intervene(renormalised_without(batch.weights, at)) for at in (top, other)]
        flip = [(one.argmax(-1) != batch.decision).double() for one in both]
        moved = [jsd(one, batch.probabilities) for one in both]
        return torch.stack([*flip, *moved], -1)  # (b, 4)

    found = case.each(flips)[longer]
    by_top, by_other, moved_top, moved_other = found.unbind(-1)
    both = (by_top * 2 + by_other).long()
    return Finding(
        float(by_top.mean()),
        float(by_other.mean()),
        bootstrap(by_top, seed=seed),
        len(longer),
        "share of decisions that flip without the largest weight; baseline: without a random other one",
        details={
            "neither": float((both == 0).double().mean()),
            "random only": float((both == 1).double().mean()),
            "top only": float((both == 2).double().mean()),
            "both": float((both == 3).double().mean()),
            "larger change by top": float((moved_top > moved_other).double().mean()),
        },
    )


def renormalised_without(weights: Tensor, positions: Tensor) -> Tensor:
    """Weights (b, k, n) with 0 at positions (b, m), the others of each query renormalised to the same sum."""
    index = positions.unsqueeze(-2).expand(-1, weights.shape[-2], -1)
    left = weights.scatter(-1, index, 0.0)
    before, after = weights.sum(-1, keepdim=True), left.sum(-1, keepdim=True)
    return torch.where(after > 0, left * (before / torch.where(after > 0, after, 1)), 0)
