"""Uniform weights, trained: is the model as good if it is trained with uniform weights?

    value = accuracy of the architecture, trained again with α = 1/n        baseline = the model's own

If it is as good, the weights were not needed: Wiegreffe & Pinter (2019), "Attention is not not Explanation",
arXiv:1908.04626, §3.2. `uniform` changes the weights of the trained model.
"""

import torch
from torch import Tensor

from regard.audits.register import Finding, register
from regard.audits.retraining import TextBatch, correct, model_of, retrain, trainable_of, uniform_weights
from regard.models.classifiers import ClassifierModel
from regard.tasks.case import Case, CaseBatch


@register("necessary", trains=True, better="lower", graded="difference")
def uniform_trained(case: Case, *, seed: int = 0, steps: int | None = None) -> Finding:
    """Train again with the same weight on every word."""
    train, own = trainable_of(case), correct(case, case.decision)
    queries = Case.from_model(model_of(train), train.texts[:1]).batches[0].weights.shape[1]

    def loss(model: ClassifierModel, batch: TextBatch) -> Tensor:
        weights = uniform_weights(batch.lengths, queries, batch.tokens.shape[1])
        with model.looking_with(weights, model.condition(batch.tokens, batch.lengths)):
            return model.loss(batch.wanted, batch.tokens, batch.lengths)

    def predicted(batch: CaseBatch) -> Tensor:
        with torch.no_grad():
            return batch.intervene(uniform_weights(batch.lengths, *batch.weights.shape[1:]).double())

    model = retrain(train, loss=loss, seed=seed, steps=steps)
    decision = Case.from_model(model, case.texts).each(predicted).argmax(-1)
    says = "accuracy of the model trained again with uniform weights; baseline: its own accuracy"
    return Finding.of(correct(case, decision), own, says, seed)
