"""Trained adversary: a model that says the same and looks elsewhere. What does it pay?

    an adversary minimises TVD(ŷ_a, ŷ_b) − λ KL(α_a ‖ α_b)        for several λ: a curve of (JSD, TVD)

    value = area under the curve from JSD 0 to ln 2, over ln 2: the mean TVD for weights that are that far off
    yardstick = the same of a straight line to the TVD of two texts drawn at random

On the curve stands, at each JSD, the least TVD of an adversary that is at least as far off; before the first
it rises in a straight line from 0, after the last it stays. Adversaries that are trained must do with one set
of parameters what `adversary` does for each text apart. Trained with fewer steps than the model, they are
weaker, and the curve is higher, than they could be.

Wiegreffe & Pinter (2019), "Attention is not not Explanation", arXiv:1908.04626, §4.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from regard.audits.case import Case, padded
from regard.audits.finding import Finding
from regard.audits.measures import bootstrap, jsd, tvd
from regard.audits.ours import of_model
from regard.audits.table import register
from regard.audits.training import of_case

STRENGTHS = (0.0, 0.001, 0.01, 0.1, 1.0)


@register("hard to manipulate", trains=True, judged="ratio")
def trained_adversary(
    case: Case, *, seed: int = 0, strengths: Sequence[float] = STRENGTHS, steps: int | None = 600
) -> Finding:
    """Train models that say the same and look elsewhere."""
    train = of_case(case)
    base = train.model if train.model is not None else train.fresh(seed)  # which refuses
    own, generator = padded(case.shown), torch.Generator().manual_seed(seed)
    far, paid = [], []
    for strength in strengths:
        model = train.fit(against=base, strength=strength, seed=seed + 1, steps=steps)
        there = of_model(model, case.texts)
        far.append(jsd(padded(there.shown), own))
        paid.append(tvd(there.said, case.said))
    curves = torch.stack([torch.stack(far), torch.stack(paid)])  # (2, strengths, N)
    by_chance = tvd(case.said, case.said[torch.randperm(len(case), generator=generator)]).mean()

    def drawn(rows: Tensor) -> Tensor:
        return torch.tensor([area(*curves[..., row.long()].mean(-1)) for row in rows], dtype=torch.float64)

    points = curves.mean(-1)
    return Finding(
        area(*points),
        float(by_chance) / 2,
        bootstrap(torch.arange(len(case)), drawn, seed=seed),
        len(case),
        "mean change of the answer (TVD) that a trained adversary pays to look elsewhere; yardstick: if it "
        "rose in a straight line to that of two random texts",
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


trained_adversary.trainings = 2  # type: ignore[attr-defined]
