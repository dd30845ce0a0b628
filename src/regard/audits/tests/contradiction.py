"""Contradiction: does the decision stay if all weight goes to a word that by itself has another class?

    value = mean over texts of the share of words j with ŷ(α = e_j) = ŷ, among those with ŷ(x_j alone) ≠ ŷ
            and JSD(e_j, α) > ½        (ŷ: the class)
    baseline = 1, that of a model that does not use its weights

`adversary` asks for any other weights, and finds them in a faithful model too: another word of the same class
is another good reason. Here the word that gets all the weight has another class, so that whoever sees these
weights is misled. If hidden states have no context, ŷ(α = e_j) is ŷ(x_j alone), and the value is 0. What a
norm hides is not found in this way: with all the weight on one word, its length makes no difference.
"""

import torch
from torch import Tensor

from regard.audits.measures import jsd
from regard.audits.register import Finding, register
from regard.audits.tests.adversary import FAR
from regard.tasks.case import Case, CaseBatch, NotApplicable


@register("hard to manipulate", better="lower")
def contradiction(case: Case, *, seed: int = 0) -> Finding:
    """Give all weight to words that by themselves have another class."""
    case.require_intervention()
    case.require_several_classes()

    def stays(batch: CaseBatch) -> Tensor:
        rows = batch.rows.repeat_interleave(batch.lengths)
        alone = case.predict([[token] for text in case.texts_of(batch) for token in text], rows).argmax(-1)
        differs = torch.zeros_like(batch.real)
        differs[batch.real] = alone != case.decision[rows]
        mass = batch.weights.sum(-1, keepdim=True)  # (b, k, 1)
        base = batch.weights / mass.clamp(min=1e-300)
        kept, tested = torch.zeros(2, len(base), dtype=torch.float64)
        for position in range(batch.real.shape[-1]):
            here = differs[:, position]
            if not bool(here.any()):
                continue
            one = torch.zeros_like(base)
            one[..., position] = 1
            here = here & (jsd(one, base).mean(-1) > FAR)
            with torch.no_grad():
                kept += here & (batch.intervene(one * mass).argmax(-1) == batch.decision)
            tested += here
        return torch.where(tested > 0, kept / tested, torch.nan)

    found = case.each(stays)[case.longer]
    known = found[found.isfinite()]
    if not len(known):
        raise NotApplicable("no text has a word that by itself has another class than the text")
    says = (
        "share of words that by themselves have another class, where the decision stays with all weight on "
        "them; baseline: of a model that ignores its weights"
    )
    return Finding.of(known, 1.0, says, seed, {"undefined": len(case) - len(known)})
