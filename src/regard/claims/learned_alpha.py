"""C21: ∂entmax/∂α exists, and heads learn an α of their own."""

import math

import numpy as np
import torch
from torch import nn

from regard.attention import attend
from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.quick import few
from regard.claims.weights_not_unique import normal
from regard.maps import Entmax, entmax


def taught(map: nn.Module, seed: int) -> float:
    """The loss of four heads that see the same scores, and are to give the mean of all values and the one
    that a higher score marks."""
    torch.manual_seed(seed)
    n, read, losses = 16, nn.Linear(4, 2), []
    optimizer = torch.optim.Adam([*map.parameters(), *read.parameters()], lr=2e-2)
    one = torch.ones(64, 4, 1, 1)
    for _ in range(few(200)):
        values, mark = torch.randn(64, n), torch.randint(n, (64,))
        theta = 0.5 * torch.randn(64, n) + 1.5 * nn.functional.one_hot(mark, n)
        seen = attend(one, theta[:, None, :, None], values[:, None, :, None], score="dot", map=map)
        wanted = torch.stack([values[torch.arange(64), mark], math.sqrt(n) * values.mean(1)], -1)
        loss = (read(seen.context.flatten(1)) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return float(np.mean(losses[-20:]))


@claim(
    "C21",
    group="Scores and maps",
    fixed="a82a066",
    says="∂entmax/∂α exists: heads can learn an α of their own.",
    source="004:1362",
    experiment="∂p/∂α by autograd and by differences. Four heads that see the same scores, a task "
    "that needs one focused and one averaging head, 200 steps: how far the α come apart, and the loss "
    "by that of α = 1.5.",
    control="α fixed at 1.5.",
    conditions=[
        at_most(1e-5, "∂p/∂α off by"),
        at_least(0.3, "α apart by"),
        must_fail(at_most(0.6, "loss by that of a fixed α")),
    ],
    minutes=0.1,
)
def learned_alpha(seed: int) -> Figures:
    """The derivative, the spread of α, and what it is worth."""
    theta, h, off = 0.5 * normal(4, 6), 1e-6, []
    for row, a in zip(theta, (1.2, 1.5, 1.8, 2.5), strict=True):
        alpha = torch.tensor([a], dtype=torch.float64)
        found = torch.autograd.functional.jacobian(lambda x, row=row: entmax(row, alpha=x), alpha).squeeze(-1)
        expected = (entmax(row, alpha=a + h) - entmax(row, alpha=a - h)) / (2 * h)
        off.append(float((found - expected).abs().max()))
    map = Entmax(learn_alpha=True, heads=4)
    loss = taught(map, seed)
    return {
        "∂p/∂α off by": max(off),
        "α apart by": float(
            torch.as_tensor(map.alpha).detach().max() - torch.as_tensor(map.alpha).detach().min()
        ),
        "loss by that of a fixed α": loss / taught(Entmax(alpha=1.5), seed),
    }
