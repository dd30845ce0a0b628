"""Contradiction: does the answer stay if all weight goes to a word that by itself says something else?

    value = mean over texts of the share of words j with ŷ(α = e_j) = ŷ, among those with ŷ(x_j alone) ≠ ŷ
            and JSD(e_j, α) > ½        (ŷ: the class)
    yardstick = 1, for a model that does not use its weights

`adversary` asks for any other weights, and finds them in a faithful model too: another word that says the
same is another good reason. Here the word that gets all the weight says otherwise, so that who sees these
weights is misled. If states have no context, ŷ(α = e_j) is ŷ(x_j alone), and the value is 0. What a norm
hides is not found in this way: with all the weight on one word, its length makes no difference.
"""

import torch
from torch import Tensor

from regard.audits.adversary import FAR
from regard.audits.case import Batch, Case
from regard.audits.finding import Finding, NotApplicable
from regard.audits.measures import bootstrap, jsd
from regard.audits.table import register


@register("hard to manipulate", better="lower")
def contradiction(case: Case, *, seed: int = 0) -> Finding:
    """Give all weight to words that by themselves say something else."""
    case.changeable()
    case.several_classes()
    longer = case.longer

    def stays(batch: Batch) -> Tensor:
        assert batch.again is not None
        texts = [case.texts[i] for i in batch.rows.tolist()]
        rows = batch.rows.repeat_interleave(batch.lengths)
        otherwise = torch.zeros(batch.there.shape, dtype=torch.bool)
        alone = case.predict([[token] for text in texts for token in text], rows).argmax(-1)
        otherwise[batch.there] = alone != case.decision[rows]
        mass = batch.weights.sum(-1, keepdim=True)  # (b, k, 1)
        base = batch.weights / mass.clamp(min=1e-300)
        kept, asked = torch.zeros(2, len(texts), dtype=torch.float64)
        for place in range(batch.there.shape[-1]):
            there = otherwise[:, place]
            if not bool(there.any()):
                continue
            one = torch.zeros_like(base)
            one[..., place] = 1
            there = there & (jsd(one, base).mean(-1) > FAR)
            with torch.no_grad():
                kept += there & (batch.again(one * mass).argmax(-1) == batch.decision)
            asked += there
        return torch.where(asked > 0, kept / asked, torch.nan)

    found = case.each(stays)[longer]
    known = found[found.isfinite()]
    if not len(known):
        raise NotApplicable("no text has a word that by itself says something else than the text")
    return Finding(
        float(known.mean()),
        1.0,
        bootstrap(known, seed=seed),
        len(known),
        "share of words that by themselves say something else, where the decision stays with all weight on "
        "them; yardstick: of a model that ignores its weights",
        details={"undefined": len(case) - len(known)},
    )
