"""Consistency: does the model say the same if the weights it shows are put in the place of its own?

    value = share of texts where |log p_c − log p̃_c| ≤ 0.1 for every class c, p̃ being the answer with the
            weights that are shown put back        yardstick = 1, for weights that are the model's own

If not, the weights that are shown are not those that are used, and nothing else about them matters. That the
class stays is not enough: with the weights of another model that learned the same, it mostly does.
"""

import torch

from regard.audits.case import Batch, Case
from regard.audits.finding import Finding
from regard.audits.measures import bootstrap
from regard.audits.table import register

NEAR = 0.1  # of log p: rounding is far below, whatever the precision
LEAST = 1e-6  # of p: what is below counts as this


@register("necessary", gate=True)
def consistency(case: Case, *, seed: int = 0) -> Finding:
    """Put the weights that are shown back into the model."""
    case.changeable()
    case.several_classes()

    def same(batch: Batch) -> torch.Tensor:
        assert batch.again is not None
        with torch.no_grad():
            said = batch.again(batch.weights)
        moved = (said.clamp(min=LEAST).log() - batch.said.clamp(min=LEAST).log()).abs().amax(-1)
        return torch.stack([(moved <= NEAR).double(), (said.argmax(-1) == batch.decision).double()], -1)

    found, stays = case.each(same).unbind(-1)
    return Finding(
        float(found.mean()),
        1.0,
        bootstrap(found, seed=seed),
        len(found),
        "share of answers that stay the same with the shown weights put back; yardstick: with its own",
        details={"decision stays": float(stays.mean())},
    )
