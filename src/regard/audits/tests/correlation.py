"""Correlation: does attention rank the words as gradients and leave-one-out do?

    value = mean over texts of Kendall's τ_b between attention and the other ranking of its words
    baseline = the same between gradient and leave-one-out: whether these two agree with each other

The gradient is taken with attention held fixed; leave-one-out is the TVD between predictions with and without
a word. With contextual hidden states τ is low, without context it is high: both are in the paper, one lecture
keeps a flat "No".

Jain & Wallace (2019), "Attention is not Explanation", arXiv:1902.10186, §4.1.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.audits.measures import kendall
from regard.audits.register import Finding, register
from regard.tasks.case import Case, NotApplicable, pad_rows


@register("out of context")
def leave_one_out_correlation(case: Case, *, seed: int = 0) -> Finding:
    """Attention and leave-one-out."""
    return _found(case, case.leave_one_out, "its change of the prediction when left out", seed)


@register("out of context")
def gradient_correlation(case: Case, *, seed: int = 0) -> Finding:
    """Attention and gradient."""
    return _found(case, case.gradient, "its gradient", seed)


def _found(case: Case, other: Sequence[Tensor], what: str, seed: int) -> Finding:
    found = agreement(case, case.shown, other)
    known = found[found.isfinite()]
    if not len(known):
        raise NotApplicable(
            "in every text all weights, or all scores of the other method, are the same: no order"
        )
    try:
        control = agreement(case, case.gradient, case.leave_one_out)
        baseline = control[control.isfinite()]
    except NotApplicable:
        baseline = torch.zeros(1)
    says = f"rank correlation (Kendall's τ) of a word's weight with {what}; "
    says += "baseline: of gradient with leave-one-out (0 if there is no gradient)"
    return Finding.of(known, baseline, says, seed, {"undefined": len(case) - len(known), "tau": known})


def agreement(case: Case, one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    """τ_b for each text of at least two tokens, NaN where undefined: (N',)."""
    rows = case.longer
    x, y = (pad_rows([scores[i].double() for i in rows.tolist()]) for scores in (one, other))
    return kendall(x, y, case.lengths[rows])
