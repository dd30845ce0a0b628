"""Uniform weights, trained: is the model as good if it learns with every word weighing the same?

    value = accuracy of the architecture, trained again with α = 1/n        yardstick = the model's own

If it is as good, the weights were not needed: Wiegreffe & Pinter (2019), "Attention is not not Explanation",
arXiv:1908.04626, §3.2. `uniform` asks the trained model.
"""

import torch
from torch import Tensor

from regard.audits.case import Batch, Case
from regard.audits.finding import Finding
from regard.audits.measures import bootstrap
from regard.audits.ours import of_model
from regard.audits.table import register
from regard.audits.training import accuracy_of, even, of_case


@register("necessary", trains=True, better="lower", judged="difference")
def uniform_trained(case: Case, *, seed: int = 0, steps: int | None = None) -> Finding:
    """Train again with the same weight on every word."""
    train, own = of_case(case), accuracy_of(case)
    assert case.labels is not None
    model = train.fit(uniform=True, seed=seed, steps=steps)

    def said(batch: Batch) -> Tensor:
        assert batch.again is not None
        with torch.no_grad():
            return batch.again(even(batch.lengths, *batch.weights.shape[1:]).double())

    right = (of_model(model, case.texts).each(said).argmax(-1) == case.labels).double()
    return Finding(
        float(right.mean()),
        float(own.mean()),
        bootstrap(right, seed=seed),
        len(case),
        "accuracy of the model trained again with the same weight on all words; yardstick: its own accuracy",
    )


uniform_trained.trainings = 1  # type: ignore[attr-defined]
