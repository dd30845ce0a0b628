"""Words removed: is the class less likely without the words of most weight, and as likely with them alone?

    comprehensiveness = p(class | text) − p(class | text without the words of most weight)     high is good
    sufficiency       = p(class | text) − p(class | these words alone)                         low is good

The words are a fifth of the text, at least one; the baseline is as many words drawn at random. Here words are
deleted from the text, not weights from the model: any function can be tested.

DeYoung et al. (2020), "ERASER", arXiv:1911.03429, §4.2.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.audits.register import Finding, register
from regard.tasks.case import Case

SHARE = 0.2


@register("necessary", graded="difference")
def comprehensiveness(case: Case, *, seed: int = 0) -> Finding:
    """Delete the words of most weight."""
    return _found(case, False, seed, "fall of the class's probability without the top fifth of words")


@register(None, better="lower", graded="difference")
def sufficiency(case: Case, *, seed: int = 0) -> Finding:
    """Keep only the words of most weight."""
    return _found(case, True, seed, "fall of the class's probability with the top fifth of words alone")


def _found(case: Case, keep: bool, seed: int, says: str) -> Finding:
    generator = torch.Generator().manual_seed(seed)
    chance = [torch.rand(int(n), generator=generator) for n in case.lengths]
    by_weight, by_chance = (fall(case, scores, keep) for scores in (case.shown, chance))
    return Finding.of(by_weight, by_chance, f"{says}; baseline: with random words", seed)


def fall(case: Case, scores: Sequence[Tensor], keep: bool) -> Tensor:
    """How much less likely the class is without the words of highest score, or with them alone: (N',)."""
    texts, rows = [], case.longer
    for i in rows.tolist():
        count = max(1, math.floor(SHARE * len(case.texts[i])))
        top = set(scores[i].topk(count).indices.tolist())
        texts.append([token for t, token in enumerate(case.texts[i]) if (t in top) == keep])
    classes = case.decision[rows].unsqueeze(-1)
    before = case.probabilities[rows].gather(-1, classes)
    return (before - case.predict(texts, rows).gather(-1, classes)).squeeze(-1)
