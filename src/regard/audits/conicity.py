"""Conicity: do the states of a text all point the same way?

    conicity(H) = (1/n) Σ_j cos(h_j, mean of H)        value = its mean over texts
                                                       yardstick = that of the words' vectors

Where states are alike it makes little difference which of them is looked at.

Mohankumar et al. (2020), "Towards Transparent and Explainable Attention Models", arXiv:2004.14243, §3.
"""

import torch
from torch import Tensor

from regard.audits.case import Batch, Case
from regard.audits.finding import Finding, NotApplicable
from regard.audits.measures import bootstrap
from regard.audits.table import register
from regard.models.classifiers.regularizers.diversity import conicity as cone


@register("out of context", better="lower")
def conicity(case: Case, *, seed: int = 0) -> Finding:
    """How narrow a cone the states of a text are in."""
    states_of = case.states
    if states_of is None:
        raise NotApplicable("the states that are looked at were not given")

    def narrow(batch: Batch) -> Tensor:
        both = states_of([case.texts[i] for i in batch.rows.tolist()], batch.rows)
        return torch.stack([cone(x.double(), batch.lengths) for x in both], -1)

    found = case.each(narrow)[case.longer]
    states, vectors = found.unbind(-1)
    return Finding(
        float(states.mean()),
        float(vectors.mean()),
        bootstrap(states, seed=seed),
        len(found),
        "mean cosine of states with their mean; yardstick: of the words' vectors",
    )
