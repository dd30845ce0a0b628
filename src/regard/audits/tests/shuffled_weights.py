"""Permutation: how much does the prediction change if the same weights are shuffled over the words?

    value = median over texts of the median over shuffles of TVD(ŷ with shuffled weights, ŷ)
    baseline = mean TVD between the predictions of two texts, drawn at random

A median as the baseline would be 0 or 1 for a confident model: two texts agree, or they do not.

Jain & Wallace (2019), "Attention is not Explanation", arXiv:1902.10186, §4.2.1.
"""

import torch
from torch import Tensor

from regard.audits.measures import median, shuffled, tvd
from regard.audits.register import Finding, register
from regard.tasks.case import Case, CaseBatch


@register("necessary", graded="ratio")
def permutation(case: Case, *, shuffles: int = 100, seed: int = 0) -> Finding:
    """Shuffle the weights of each text."""
    case.require_intervention()
    generator = torch.Generator().manual_seed(seed)

    def moved(batch: CaseBatch) -> Tensor:
        distances = []
        for _ in range(shuffles):
            order = shuffled(batch.real, generator).unsqueeze(-2).expand_as(batch.weights)
            distances.append(tvd(batch.intervene(batch.weights.gather(-1, order)), batch.probabilities))
        return median(torch.stack(distances), 0)

    medians = case.each(moved)
    other = torch.randperm(len(case), generator=generator)
    baseline = tvd(case.probabilities, case.probabilities[other])
    says = f"median change (TVD) of the prediction over {shuffles} shuffles; baseline: mean between two texts"
    details = {"mean": medians.mean(), "most": _by_largest(case, medians)}
    return Finding.of(medians, baseline, says, seed, details, median)


def _by_largest(case: Case, medians: Tensor) -> list[float]:
    """Median change where the largest weight is below .25, .5, .75 and 1; NaN where there is no such text."""
    largest = torch.tensor([float(row.max()) for row in case.shown])
    bins = (largest * 4).long().clamp(0, 3)
    return [float(median(medians[bins == i])) if bool((bins == i).any()) else float("nan") for i in range(4)]
