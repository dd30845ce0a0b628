"""Erasure: does the decision flip without the word that has the most weight?

    value = share of texts whose class changes if the largest weight is 0 and the rest is renormalised
    baseline = the same for another word, drawn at random

Serrano & Smith (2019), "Is Attention Interpretable?", arXiv:1906.03731, §3. Where one word has all the weight
there is no rest: every weight is then 0.
"""

import torch
from torch import Tensor

from regard.audits.measures import jsd
from regard.audits.register import Finding, register
from regard.tasks.case import Case, CaseBatch


@register("necessary", graded="difference")
def erasure(case: Case, *, seed: int = 0) -> Finding:
    """Set the largest weight to 0, or that of another word."""
    case.require_intervention()
    case.require_several_classes()
    generator = torch.Generator().manual_seed(seed)

    def flips(batch: CaseBatch) -> Tensor:
        top = batch.shown.argmax(-1, keepdim=True)  # (b, 1)
        chance = torch.rand(batch.real.shape, generator=generator)
        other = torch.where(batch.real, chance, -1.0).scatter(-1, top, -1.0).argmax(-1, keepdim=True)
        gone = [torch.zeros_like(batch.real).scatter(-1, at, True) for at in (top, other)]
        both = [batch.intervene(renormalised_without(batch.weights, at)) for at in gone]
        flip = [(one.argmax(-1) != batch.decision).double() for one in both]
        moved = [jsd(one, batch.probabilities) for one in both]
        return torch.stack([*flip, *moved], -1)  # (b, 4)

    by_top, by_other, moved_top, moved_other = case.each(flips)[case.longer].unbind(-1)
    both = by_top * 2 + by_other
    cases = ("neither", "random only", "top only", "both")
    details = {name: (both == i).double().mean() for i, name in enumerate(cases)}
    details["larger change by top"] = (moved_top > moved_other).double().mean()
    says = "share of decisions that flip without the largest weight; baseline: without a random other one"
    return Finding.of(by_top, by_other, says, seed, details)


def renormalised_without(weights: Tensor, gone: Tensor) -> Tensor:
    """Weights (b, k, n) with 0 where `gone` (b, n), the others of each query renormalised to the same sum."""
    left = torch.where(gone.unsqueeze(-2), 0, weights)
    before, after = weights.sum(-1, keepdim=True), left.sum(-1, keepdim=True)
    return torch.where(after > 0, left * (before / torch.where(after > 0, after, 1)), 0)
