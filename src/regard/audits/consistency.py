"""Consistency: does the model say the same if the weights it shows are put in the place of its own?

    value = share of texts whose class stays the same        yardstick = share of texts with the usual class

If not, the weights that are shown are not those that are used, and nothing else about them matters.
"""

import torch

from regard.audits.case import Batch, Case
from regard.audits.finding import Finding
from regard.audits.measures import bootstrap
from regard.audits.table import register


@register("necessary", gate=True)
def consistency(case: Case, *, seed: int = 0) -> Finding:
    """Put the weights that are shown back into the model."""
    case.changeable()
    case.several_classes()

    def same(batch: Batch) -> torch.Tensor:
        assert batch.again is not None
        with torch.no_grad():
            return (batch.again(batch.weights).argmax(-1) == batch.decision).double()

    found = case.each(same)
    return Finding(
        float(found.mean()),
        float(torch.bincount(case.decision).max() / len(case)),
        bootstrap(found, seed=seed),
        len(found),
        "share of decisions that stay with the shown weights put back; yardstick: share of the usual class",
    )
