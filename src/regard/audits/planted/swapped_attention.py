"""A model with swapped attention: the weights that are shown are those of another model.

Two BiLSTMs are trained on the same texts from different seeds; one predicts, and interventions are made in
it, the other one's weights are shown. Both start with scores SHARP times as large, so that their attention
depends on the seed.
"""

import torch

from regard.audits.measures import jsd
from regard.audits.planted.kinds import Made, register
from regard.audits.planted.planted_texts import Texts
from regard.audits.planted.trained_classifiers import bilstm, learned
from regard.audits.planted.wrapper import Wrapper, functions_of
from regard.models.classifiers import ClassifierModel

SHARP = 10.0
DIFFER = 0.1  # mean JSD of the two, at least


@register("another seed's", faithful=False)
def another_seeds(texts: Texts) -> Made:
    """A BiLSTM predicts; the weights shown are those of one from another seed."""
    model, shown = (Wrapper(learned(sharp(), texts)) for _ in range(2))
    lengths = torch.full((len(texts.test),), texts.test.shape[1])
    with torch.no_grad():
        apart = float(jsd(*(one.weights(texts.test, lengths).double() for one in (model, shown))).mean())
    return Made(functions_of(model, shown), {"JSD of the two": apart}, apart >= DIFFER, model.model)


def sharp() -> ClassifierModel:
    """A BiLSTM whose attention is on few words from the start."""
    model = bilstm()
    with torch.no_grad():
        model.get_parameter("attention.score.v.weight").mul_(SHARP)
    return model
