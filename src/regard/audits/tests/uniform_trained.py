"""Uniform weights, trained: is the model as good if it is trained with uniform weights?

    value = accuracy of the architecture, trained again with α = 1/n        baseline = the model's own

If it is as good, the weights were not needed: Wiegreffe & Pinter (2019), "Attention is not not Explanation",
arXiv:1908.04626, §3.2. `uniform` changes the weights of the trained model.
"""

import torch
from torch import Tensor

from regard.audits.finding import Finding
from regard.audits.measures import bootstrap
from regard.audits.register import register
from regard.audits.retraining import correct, retrain, trainable_of, uniform_weights
from regard.tasks.case import Case, CaseBatch


@register("necessary", trains=True, better="lower", graded="difference")
def uniform_trained(case: Case, *, seed: int = 0, steps: int | None = None) -> Finding:
    """Train again with the same weight on every word."""
    train, own = trainable_of(case), correct(case)
    model = retrain(train, uniform=True, seed=seed, steps=steps)

    def predicted(batch: CaseBatch) -> Tensor:
        with torch.no_grad():
            return batch.intervene(uniform_weights(batch.lengths, *batch.weights.shape[1:]).double())

    decision = Case.from_model(model, case.texts).each(predicted).argmax(-1)
    right = decision.eq(case.known_labels).double()
    return Finding(
        float(right.mean()),
        float(own.mean()),
        bootstrap(right, seed=seed),
        len(case),
        "accuracy of the model trained again with uniform weights; baseline: its own accuracy",
    )
