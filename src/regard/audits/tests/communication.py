"""Communication: can a reader who gets only a few words predict what the model predicted? A simulation.

    value = share of texts where a bag-of-words reader names the model's class from its k words of most weight
    baseline = the same from k random words

The reader is naive Bayes with add-one smoothing, by five-fold cross-validation over the texts. No person is
asked: what a layperson would make of the words is not measured. Success does not mean that the model used
these words.

Treviso & Martins (2020), "The Explanation Game: Towards Prediction Explainability through Sparse
Communication", arXiv:2004.13876 (there a linear reader, trained).
"""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.audits.measures import rankings
from regard.audits.register import Finding, register
from regard.tasks.case import Case, NotApplicable

FOLDS, KS = 5, (1, 2, 3, 5, 8)


@register(None, graded="difference")
def communication(case: Case, *, seed: int = 0, words: int = 3) -> Finding:
    """Predict the class from a few words, with a simulated reader."""
    case.require_several_classes()
    if len(case) < 2 * FOLDS:
        raise NotApplicable(f"a reader needs {2 * FOLDS} texts or more; there are {len(case)}")
    generator = torch.Generator().manual_seed(seed)
    by = rankings(case, generator)
    fold = torch.randperm(len(case), generator=generator) % FOLDS
    right = {
        name: {k: predicted_right(case, scores, k, fold) for k in (*KS, words)} for name, scores in by.items()
    }
    says = f"share of texts where a simulated reader predicts the class from {words} words; "
    says += "baseline: from random words"
    curves = {name: [float(curve[k].mean()) for k in KS] for name, curve in right.items()}
    details = {"simulated": True, "words": list(KS), **curves}
    return Finding.of(right["attention"][words], right["random"][words], says, seed, details)


def predicted_right(case: Case, scores: Sequence[Tensor], k: int, fold: Tensor) -> Tensor:
    """1 where the reader, given the k tokens of highest score, names the model's class, else 0: (N,)."""
    given = [
        [text[t] for t in row.topk(min(k, len(text))).indices.tolist()]
        for text, row in zip(case.texts, scores, strict=True)
    ]
    return named_by_reader(given, case.decision, case.probabilities.shape[-1], fold)


def named_by_reader(
    given: Sequence[Sequence[Hashable]], decision: Tensor, classes: int, fold: Tensor
) -> Tensor:
    """1 where naive Bayes, given words or other features of each text, names its class, else 0: (N,)."""
    ids: dict[Hashable, int] = {}
    rows = [[ids.setdefault(one, len(ids)) for one in some] for some in given]
    bags = torch.stack([torch.tensor(row).bincount(minlength=len(ids)) for row in rows]).double()
    one_hot = F.one_hot(decision, classes).double()  # (N, classes)
    predicted = torch.zeros(len(rows), dtype=torch.long)
    for number in range(FOLDS):
        held_out = fold == number
        learned = one_hot * (~held_out).unsqueeze(-1)
        words = learned.T @ bags + 1  # (classes, words)
        prior = (learned.sum(0) + 1).log()
        likelihood = (words / words.sum(-1, keepdim=True)).log()
        predicted[held_out] = (bags[held_out] @ likelihood.T + prior).argmax(-1)
    return (predicted == decision).double()
