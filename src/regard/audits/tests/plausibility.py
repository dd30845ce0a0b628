"""Plausibility: are the weights on the words that people would name?

    value = mean over texts of the AUC of weights against highlights        baseline = ½, of random weights

    F1, IoU    of the k words of most weight, k being as many as people marked

It says nothing about what the model used: weights that please people can be made up (`deception`), and a
model can be right for reasons nobody would give. So it is no part of the grade.

AUC: Sen et al. (2020), "Human Attention Maps for Text Classification: Do Humans and Neural Networks Focus on
the Same Words?"; F1 and IoU of words: DeYoung et al. (2020), "ERASER", arXiv:1911.03429, §4.
Jacovi & Goldberg (2020), arXiv:2004.03685, keep plausible and faithful apart.
"""

import torch
from torch import Tensor

from regard.audits.register import Finding, register
from regard.tasks.case import Case, NotApplicable


@register(None, needs="highlights")
def plausibility(case: Case, *, seed: int = 0) -> Finding:
    """Compare weights with what people marked."""
    assert case.highlights is not None
    found, shares = [], []
    for number, (shown, given) in enumerate(zip(case.shown, case.highlights, strict=True), 1):
        marks = torch.as_tensor(given, dtype=torch.bool)
        if marks.shape != shown.shape:
            raise NotApplicable(
                f"a mark is needed for each token: text {number} has {len(shown)} and {len(marks)} marks"
            )
        if bool(marks.any()) and not bool(marks.all()):
            found.append([auc(shown, marks), *overlap(shown, marks)])
            shares.append(float(marks.double().mean()))
    if not found:
        raise NotApplicable("no text has both words that were marked and words that were not")
    areas, f1, iou = torch.tensor(found, dtype=torch.float64).unbind(-1)
    by_chance = sum(shares) / len(shares)
    details = {"token F1": f1.mean(), "token F1 at random": by_chance, "IoU": iou.mean(), "AUC": areas}
    says = "AUC of weights against the words that people marked; baseline: of random weights"
    return Finding.of(areas, 0.5, says, seed, details)


def auc(scores: Tensor, marks: Tensor) -> float:
    """How often a marked one of scores (n,) is above one that is not; half if they are equal."""
    differences = scores[marks].unsqueeze(-1) - scores[~marks]
    return float(((differences > 0).double() + 0.5 * (differences == 0).double()).mean())


def overlap(scores: Tensor, marks: Tensor) -> tuple[float, float]:
    """F1 and IoU of the k highest scores (n,) with the k that are marked."""
    k = int(marks.sum())
    common = int(marks[scores.topk(k).indices].sum())
    return common / k, common / (2 * k - common)
