"""Trained adversary: a model that predicts the same with different attention. How much do predictions change?

    an adversary minimises TVD(ŷ_a, ŷ_b) − λ KL(α_a ‖ α_b)        for several λ: a curve of (JSD, TVD)

    value = area under the curve from JSD 0 to ln 2, over ln 2: the mean TVD for weights that different
    baseline = the same of a straight line to the TVD of two texts drawn at random

The curve has, at each JSD, the least TVD of an adversary that is at least as different; before the first it
rises in a straight line from 0, after the last it is constant. Trained adversaries must do with one set of
parameters what `adversary` does for each text separately. Trained with fewer steps than the model, they are
weaker, and the curve is higher, than they could be.

Wiegreffe & Pinter (2019), "Attention is not not Explanation", arXiv:1908.04626, §4.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from regard.audits.finding import Finding
from regard.audits.measures import bootstrap, jsd, tvd
from regard.audits.register import register
from regard.audits.retraining import new_model, retrain, trainable_of
from regard.tasks.case import Case, pad_rows

STRENGTHS = (0.0, 0.001, 0.01, 0.1, 1.0)


@register("hard to manipulate", trains=True, trainings=2, graded="ratio")
def trained_adversary(
    case: Case, *, seed: int = 0, strengths: Sequence[float] = STRENGTHS, steps: int | None = 600
) -> Finding:
    """Train models that predict the same with different attention."""
    train = trainable_of(case)
    base = train.model if train.model is not None else new_model(train, seed)  # which refuses
    own, generator = pad_rows(case.shown), torch.Generator().manual_seed(seed)
    far, paid = [], []
    for strength in strengths:
        model = retrain(train, against=base, strength=strength, seed=seed + 1, steps=steps)
        other = Case.from_model(model, case.texts)
        far.append(jsd(pad_rows(other.shown), own))
        paid.append(tvd(other.probabilities, case.probabilities))
    curves = torch.stack([torch.stack(far), torch.stack(paid)])  # (2, strengths, N)
    pairs = torch.randperm(len(case), generator=generator)
    by_chance = tvd(case.probabilities, case.probabilities[pairs]).mean()

    def drawn(rows: Tensor) -> Tensor:
        return torch.tensor([area(*curves[..., row.long()].mean(-1)) for row in rows], dtype=torch.float64)

    points = curves.mean(-1)
    return Finding(
        area(*points),
        float(by_chance) / 2,
        bootstrap(torch.arange(len(case)), drawn, seed=seed),
        len(case),
        "mean change of the prediction (TVD) that different attention costs a trained adversary; baseline: "
        "if it rose in a straight line to that of two random texts",
        details={"strengths": list(strengths), "JSD": points[0].tolist(), "TVD": points[1].tolist()},
    )


def area(far: Tensor, paid: Tensor) -> float:
    """Area under the curve of points (p,), from JSD 0 to ln 2, over ln 2."""
    corners = [(0.0, 0.0)]
    for x, _ in sorted(zip(far.tolist(), paid.tolist(), strict=True)):
        corners.append((x, float(paid[far >= x].min())))
    corners.append((math.log(2), corners[-1][1]))
    total = 0.0
    for (x, y), (after, high) in pairwise(corners):
        total += (after - x) * (y + high) / 2
    return total / math.log(2)
