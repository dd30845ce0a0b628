"""Erasure: does the decision flip without the word of most weight, or without the three of most weight?

    value = share of texts whose class changes if the k largest weights are 0 and the rest is renormalised
    baseline = the same for k other words, drawn at random

`erasure` has k = 1, `joint_erasure` k = 3, at most half of a text: where two words say the same, the second
takes over the weight of the first, and only without both does the decision flip.

Serrano & Smith (2019), "Is Attention Interpretable?", arXiv:1906.03731, §3 (one) and §4 (several). Where the
erased words have all the weight there is no rest: every weight is then 0.
"""

import torch
from torch import Tensor

from regard.audits.measures import jsd
from regard.audits.register import Finding, register
from regard.tasks.case import Case, CaseBatch

JOINT = 3  # words that are erased together


@register("necessary", graded="difference")
def erasure(case: Case, *, seed: int = 0) -> Finding:
    """Set the largest weight to 0, or that of another word."""
    by_top, by_other, moved_top, moved_other = erased(case, 1, seed).unbind(-1)
    both = by_top * 2 + by_other
    cases = ("neither", "random only", "top only", "both")
    details = {name: (both == i).double().mean() for i, name in enumerate(cases)}
    details["larger change by top"] = (moved_top > moved_other).double().mean()
    says = "share of decisions that flip without the largest weight; baseline: without a random other one"
    return Finding.of(by_top, by_other, says, seed, details)


@register("necessary", graded="difference")
def joint_erasure(case: Case, *, seed: int = 0, words: int = JOINT) -> Finding:
    """Set the largest weights to 0 together, or those of as many others."""
    found = {k: erased(case, k, seed)[:, :2] for k in range(1, words + 1)}
    shares = torch.stack([flips.mean(0) for flips in found.values()], -1)  # (2, words)
    details = {"words": list(found), "top": shares[0], "random": shares[1]}
    says = f"share of decisions that flip without the {words} largest weights; baseline: without others"
    by_top, by_others = found[words].unbind(-1)
    return Finding.of(by_top, by_others, says, seed, details)


def erased(case: Case, k: int, seed: int) -> Tensor:
    """Of each text of two tokens or more, without its k words of most weight and without k others: (N', 4).

    Whether the decision flips, 1 or 0, and by how much the prediction moves, JSD: of the top, of the others.
    """
    case.require_intervention()
    case.require_several_classes()
    generator = torch.Generator().manual_seed(seed)

    def flips(batch: CaseBatch) -> Tensor:
        count = (batch.lengths // 2).clamp(max=k).unsqueeze(-1)  # (b, 1), so that as many others are left
        top = highest(torch.where(batch.real, batch.shown, -1.0), count)
        chance = torch.rand(batch.real.shape, generator=generator)
        other = highest(torch.where(batch.real & ~top, chance, -1.0), count)
        both = [batch.intervene(renormalised_without(batch.weights, gone)) for gone in (top, other)]
        flip = [(one.argmax(-1) != batch.decision).double() for one in both]
        moved = [jsd(one, batch.probabilities) for one in both]
        return torch.stack([*flip, *moved], -1)

    return case.each(flips)[case.longer]


def highest(scores: Tensor, count: Tensor) -> Tensor:
    """True for the `count` (b, 1) highest scores of each row (b, n)."""
    return scores.argsort(dim=-1, descending=True, stable=True).argsort(-1) < count


def renormalised_without(weights: Tensor, gone: Tensor) -> Tensor:
    """Weights (b, k, n) with 0 where `gone` (b, n), the others of each query renormalised to the same sum."""
    left = torch.where(gone.unsqueeze(-2), 0, weights)
    before, after = weights.sum(-1, keepdim=True), left.sum(-1, keepdim=True)
    return torch.where(after > 0, left * (before / torch.where(after > 0, after, 1)), 0)
