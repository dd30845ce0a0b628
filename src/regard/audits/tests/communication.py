"""Communication: can a reader who gets only a few words predict what the model predicted? A simulation.

    value = share of texts where a bag-of-words reader names the model's class from its k words of most weight
    baseline = the same from k random words

The reader is naive Bayes with add-one smoothing, by five-fold cross-validation over the texts. No person is
asked: what a layperson would make of the words is not measured. Success does not mean that the model used
these words.

Treviso & Martins (2020), "The Explanation Game: Towards Prediction Explainability through Sparse
Communication", arXiv:2004.13876 (there a linear reader, trained).
"""

from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor

from regard.audits.finding import Finding
from regard.audits.measures import bootstrap
from regard.audits.register import register
from regard.tasks.case import Case, NotApplicable

FOLDS, KS = 5, (1, 2, 3, 5, 8)


@register(None, graded="difference")
def communication(case: Case, *, seed: int = 0, words: int = 3) -> Finding:
    """Predict the class from a few words, with a simulated reader."""
    case.require_several_classes()
    if len(case) < 2 * FOLDS:
        raise NotApplicable(f"a reader needs {2 * FOLDS} texts or more; there are {len(case)}")
    generator = torch.Generator().manual_seed(seed)
    by: dict[str, Sequence[Tensor]] = {
        "attention": case.shown,
        "random": [torch.rand(int(n), generator=generator) for n in case.lengths],
    }
    with suppress(NotApplicable):
        by["gradient"] = case.gradient
    fold = torch.randperm(len(case), generator=generator) % FOLDS
    right = {
        name: {k: predicted_right(case, scores, k, fold) for k in (*KS, words)} for name, scores in by.items()
    }
    found = right["attention"][words]
    return Finding(
        float(found.mean()),
        float(right["random"][words].mean()),
        bootstrap(found, seed=seed),
        len(case),
        f"share of texts where a simulated reader predicts the class from {words} words; "
        "baseline: from random words",
        details={"simulated": True, "words": list(KS)}
        | {name: [float(curve[k].mean()) for k in KS] for name, curve in right.items()},
    )


def predicted_right(case: Case, scores: Sequence[Tensor], k: int, fold: Tensor) -> Tensor:
    """1 where the reader, given the k tokens of highest score, names the model's class, else 0: (N,)."""
    ids: dict[object, int] = {}
    counts = []
    for text, row in zip(case.texts, scores, strict=True):
        top = row.topk(min(k, len(text))).indices.tolist()
        counts.append([ids.setdefault(text[t], len(ids)) for t in top])
    bags = torch.zeros(len(case), len(ids), dtype=torch.float64)
    for bag, some in zip(bags, counts, strict=True):
        bag.index_add_(0, torch.tensor(some), torch.ones(len(some), dtype=torch.float64))
    classes = case.probabilities.shape[-1]
    one_hot = torch.nn.functional.one_hot(case.decision, classes).double()  # (N, classes)
    predicted = torch.zeros(len(case), dtype=torch.long)
    for number in range(FOLDS):
        held_out = fold == number
        learned = one_hot * (~held_out).unsqueeze(-1)
        words = learned.T @ bags + 1  # (classes, words)
        prior = (learned.sum(0) + 1).log()
        likelihood = (words / words.sum(-1, keepdim=True)).log()
        predicted[held_out] = (bags[held_out] @ likelihood.T + prior).argmax(-1)
    return (predicted == case.decision).double()
