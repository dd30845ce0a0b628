"""Weights of another model: what is shown was never part of what answers.

Two BiLSTMs learn the same from different seeds, and differ in where they look; one answers, and weights can
be changed in it, the other one's weights are shown.
"""

import torch

from regard.audits.measures import jsd
from regard.audits.planted.handed import Halves, handed
from regard.audits.planted.plain import bilstm, learned
from regard.audits.planted.table import Made, register
from regard.audits.planted.texts import Texts

DIFFER = 0.1  # mean JSD of the two, at least


@register("another seed's", faithful=False)
def another_seeds(texts: Texts) -> Made:
    """A BiLSTM answers; the weights shown are those of one from another seed."""
    answers, shown = (Halves(learned(bilstm(), texts)) for _ in range(2))
    lengths = torch.full((len(texts.test),), texts.test.shape[1])
    with torch.no_grad():
        apart = float(jsd(*(model.weights(texts.test, lengths).double() for model in (answers, shown))).mean())
    return Made(handed(answers, shown), {"JSD of the two": apart}, apart >= DIFFER)
