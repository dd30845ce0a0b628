"""Conicity: do the hidden states of a text all point the same way?

    conicity(H) = (1/n) Σ_j cos(h_j, mean of H)        value = its mean over texts
                                                       baseline = that of the word vectors

Where hidden states are alike it makes little difference which of them gets the weight. Of a rationalizer,
which reads the words it selects and no others, it says nothing, and is not measured.

Mohankumar et al. (2020), "Towards Transparent and Explainable Attention Models", arXiv:2004.14243, §3.
"""

import torch
from torch import Tensor

from regard.audits.register import Finding, register
from regard.models.classifiers.regularizers.diversity import conicity as cone
from regard.tasks.case import Case, CaseBatch


@register("out of context", better="lower")
def conicity(case: Case, *, seed: int = 0) -> Finding:
    """How narrow a cone the hidden states of a text are in."""
    states_of = case.states_and_vectors

    def narrow(batch: CaseBatch) -> Tensor:
        both = states_of(case.texts_of(batch), batch.rows)
        return torch.stack([cone(x.double(), batch.lengths) for x in both], -1)

    states, vectors = case.each(narrow)[case.longer].unbind(-1)
    says = "mean cosine of hidden states with their mean; baseline: of the word vectors"
    return Finding.of(states, vectors, says, seed)
