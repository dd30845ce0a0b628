"""Consistency: does the model predict the same if the weights it shows are put in the place of its own?

    value = share of texts where |log p_c − log p̃_c| ≤ 0.1 for every class c, p̃ being the prediction with the
            weights that are shown put back        baseline = 1, for weights that are the model's own

If not, the weights that are shown are not those that are used, and nothing else about them matters. That the
class stays is not enough: with the weights of another model trained on the same data, it mostly does.
"""

import torch
from torch import Tensor

from regard.audits.register import Finding, register
from regard.tasks.case import Case, CaseBatch

NEAR = 0.1  # of log p: rounding is far below, whatever the precision
LEAST = 1e-6  # of p: smaller ones count as this


@register("necessary", gate=True)
def consistency(case: Case, *, seed: int = 0) -> Finding:
    """Put the weights that are shown back into the model."""
    case.require_intervention()
    case.require_several_classes()

    def same(batch: CaseBatch) -> Tensor:
        with torch.no_grad():
            found = batch.intervene(batch.weights)
        moved = (found.clamp(min=LEAST).log() - batch.probabilities.clamp(min=LEAST).log()).abs().amax(-1)
        return torch.stack([moved <= NEAR, found.argmax(-1) == batch.decision], -1).double()

    found, stays = case.each(same).unbind(-1)
    says = "share of predictions that stay the same with the shown weights put back; baseline: with its own"
    return Finding.of(found, 1.0, says, seed, {"decision stays": stays.mean()})
