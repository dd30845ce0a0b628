"""Weights of another model: what is shown was never part of what answers.

Two BiLSTMs learn the same from different seeds; one answers, and weights can be changed in it, the other
one's weights are shown. Both begin with scores SHARP times as large, so that where they look is a matter of
the seed.
"""

import torch

from regard.audits.measures import jsd
from regard.audits.planted.handed import Halves, handed
from regard.audits.planted.plain import bilstm, learned
from regard.audits.planted.table import Made, register
from regard.audits.planted.texts import Texts
from regard.models.classifiers import ClassifierModel

SHARP = 10.0
DIFFER = 0.1  # mean JSD of the two, at least


@register("another seed's", faithful=False)
def another_seeds(texts: Texts) -> Made:
    """A BiLSTM answers; the weights shown are those of one from another seed."""
    answers, shown = (Halves(learned(sharp(), texts)) for _ in range(2))
    lengths = torch.full((len(texts.test),), texts.test.shape[1])
    with torch.no_grad():
        apart = float(
            jsd(*(model.weights(texts.test, lengths).double() for model in (answers, shown))).mean()
        )
    return Made(handed(answers, shown), {"JSD of the two": apart}, apart >= DIFFER, answers.model)


def sharp() -> ClassifierModel:
    """A BiLSTM that looks at few words from the beginning."""
    model = bilstm()
    with torch.no_grad():
        model.get_parameter("attention.score.v.weight").mul_(SHARP)
    return model
