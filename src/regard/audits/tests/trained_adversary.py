"""Trained adversary: a model that predicts the same with different attention. How much do predictions change?

    an adversary a of the model b minimises TVD(ŷ_a, ŷ_b) − λ KL(α_a ‖ α_b): for several λ, a curve (JSD, TVD)

    value = area under the curve from JSD 0 to ln 2, over ln 2: the mean TVD for weights that different
    baseline = the same of a straight line to the TVD of two texts drawn at random

The curve has, at each JSD, the least TVD of an adversary that is at least as different; before the first it
rises in a straight line from 0, after the last it is constant. Trained adversaries must do with one set of
parameters what `adversary` does for each text separately. Trained with fewer steps than the model, they are
weaker, and the curve is higher, than they could be.

Wiegreffe & Pinter (2019), "Attention is not not Explanation", arXiv:1908.04626, §4. (One lecture has
KL(α_b ‖ α_a), the other way round, and Σ|ŷ − ỹ|, which is twice the TVD.)
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from regard.audits.measures import jsd, kl, tvd
from regard.audits.register import Finding, register
from regard.audits.retraining import TextBatch, model_of, retrain, trainable_of
from regard.models.classifiers import ClassifierModel
from regard.models.subject import eval_mode
from regard.recording import record
from regard.tasks.case import Case, pad_rows

STRENGTHS = (0.0, 0.001, 0.01, 0.1, 1.0)  # λ
FLOOR = 1e-6  # weights of the base below it count as this in KL, which is infinite at 0


@register("hard to manipulate", trains=True, trainings=2, graded="ratio")
def trained_adversary(
    case: Case, *, seed: int = 0, strengths: Sequence[float] = STRENGTHS, steps: int | None = 600
) -> Finding:
    """Train models that predict the same with different attention."""
    train = trainable_of(case)
    base, own = model_of(train), pad_rows(case.shown)
    far, paid = [], []
    for strength in strengths:

        def loss(model: ClassifierModel, batch: TextBatch, strength: float = strength) -> Tensor:
            return adversary_loss(model, base, batch.tokens, batch.lengths, strength).sum()

        other = Case.from_model(retrain(train, loss=loss, seed=seed + 1, steps=steps), case.texts)
        far.append(jsd(pad_rows(other.shown), own))
        paid.append(tvd(other.probabilities, case.probabilities))
    curves = torch.stack([torch.stack(far), torch.stack(paid)])  # (2, strengths, N)
    pairs = torch.randperm(len(case), generator=torch.Generator().manual_seed(seed))
    by_chance = tvd(case.probabilities, case.probabilities[pairs]).mean()

    def areas(rows: Tensor) -> Tensor:
        return torch.tensor([area(*curves[..., row.long()].mean(-1)) for row in rows], dtype=torch.float64)

    says = (
        "mean change of the prediction (TVD) that different attention costs a trained adversary; baseline: "
        "if it rose in a straight line to that of two random texts"
    )
    details = {"strengths": list(strengths), "JSD": curves[0].mean(-1), "TVD": curves[1].mean(-1)}
    return Finding.of(torch.arange(len(case)), by_chance / 2, says, seed, details, areas)


def adversary_loss(
    model: ClassifierModel, base: ClassifierModel, tokens: Tensor, lengths: Tensor, strength: float
) -> Tensor:
    """TVD(ŷ_a, ŷ_b) − λ KL(α_a ‖ α_b) of each text: (b,); a the adversary, b the model it imitates."""
    with record(model, model.attention_paths["reader"], grad=True) as own:
        predicted = model(tokens, lengths).softmax(-1)
    with eval_mode(base), torch.no_grad(), record(base, base.attention_paths["reader"]) as theirs:
        wanted = base(tokens, lengths).softmax(-1)
    shown = base.over_words(theirs).mean(-2).clamp(min=FLOOR)
    return tvd(predicted, wanted) - strength * kl(model.over_words(own).mean(-2), shown)


def area(far: Tensor, paid: Tensor) -> float:
    """Area under the curve of points (p,), from JSD 0 to ln 2, over ln 2."""
    corners = [(0.0, 0.0)]
    for x, _ in sorted(zip(far.tolist(), paid.tolist(), strict=True)):
        corners.append((x, float(paid[far >= x].min())))
    corners.append((math.log(2), corners[-1][1]))
    under = ((after - x) * (y + high) / 2 for (x, y), (after, high) in pairwise(corners))
    return sum(under) / math.log(2)
